// Parallel loops with threads that live for one call, so that a process can be forked between calls.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <type_traits>
#include <vector>

namespace sphereot {

// The number of threads of a call, and a function that may end it early: `check`, if not null, is called on the calling
// thread about ten times per second and ends the call by throwing.
struct Execution {
    std::size_t threads;
    void (*check)() = nullptr;

    static constexpr auto interval = std::chrono::milliseconds(100);
};

// Tells a worker when its call has ended. It measures time instead of counting points, because the time per point
// depends on the weights, the order and the machine.
class Watch {
public:
    struct Stopped {};

    Watch(const std::atomic<bool>& stopped, void (*check)()) : stopped_(stopped), check_(check) {}

    // Call it after each piece of work; `points` is the size of the piece. Throws if the call has ended.
    void pass(std::size_t points) {
        constexpr std::size_t points_per_check = 1 << 14;  // about 100 microseconds, much longer than reading the clock
        passed_ += points;
        if (passed_ < points_per_check) return;
        passed_ = 0;
        check_now();
    }

private:
    void check_now() {
        if (stopped_.load(std::memory_order_relaxed)) throw Stopped{};
        if (!check_) return;
        const auto now = std::chrono::steady_clock::now();
        if (now - last_ < Execution::interval) return;
        check_();
        last_ = now;
    }

    const std::atomic<bool>& stopped_;
    void (*check_)();
    std::size_t passed_ = 0;
    std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// Calls worker(task) for each task in [0, tasks). Each thread makes one worker with make_worker(watch), which owns the
// scratch memory of the thread. Tasks must write to disjoint memory, so that results do not depend on the threads. The
// first exception of a worker or of `check` ends the loop and is rethrown.
template <std::invocable<Watch&> MakeWorker>
    requires std::invocable<std::invoke_result_t<MakeWorker, Watch&>&, std::size_t>
void parallel_for(std::size_t tasks, const Execution& execution, MakeWorker make_worker) {
    std::atomic<std::size_t> next{0};
    std::atomic<bool> stopped{false};
    std::exception_ptr failure;
    std::mutex mutex;  // guards `failure` and `running`
    std::condition_variable ended;
    std::size_t running = 0;
    const auto stop = [&] {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next.store(tasks, std::memory_order_relaxed);
        stopped.store(true, std::memory_order_relaxed);
    };
    const auto run = [&](void (*check)()) {
        Watch watch(stopped, check);
        try {
            auto worker = make_worker(watch);
            for (std::size_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < tasks;) worker(task);
        } catch (const Watch::Stopped&) {
        } catch (...) {
            stop();
        }
    };
    std::vector<std::thread> others;
    others.reserve(std::min(execution.threads, tasks));
    try {
        for (std::size_t t = 1; t < execution.threads && t < tasks; ++t) {
            others.emplace_back([&] {
                run(nullptr);
                const std::lock_guard lock(mutex);
                if (--running == 0) ended.notify_one();
            });
            const std::lock_guard lock(mutex);
            ++running;
        }
    } catch (const std::system_error&) {
        // The system has no more threads: those that run do the work.
    }
    run(execution.check);
    if (execution.check) {  // other threads may be in long tasks
        std::unique_lock lock(mutex);
        while (!ended.wait_for(lock, Execution::interval, [&] { return running == 0; })) {
            lock.unlock();
            try {
                execution.check();
            } catch (...) {
                stop();
            }
            lock.lock();
        }
    }
    for (auto& other : others) other.join();
    if (failure) std::rethrow_exception(failure);
}

}  // namespace sphereot
