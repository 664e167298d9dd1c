// Sharing tasks out over threads that live for one call: nothing is left behind for a forked process to trip over.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace sphereot {

// On how many threads a call runs, and what may end it early: `check`, if there is one, is called on the calling thread
// about ten times a second, and ends the call by throwing.
struct Execution {
    std::size_t threads;
    void (*check)() = nullptr;

    static constexpr auto interval = std::chrono::milliseconds(100);
};

// A worker's view of whether its call goes on. Time is looked at, not counted in points: how long a point takes depends
// on the weights, the order and the machine.
class Watch {
public:
    struct Stopped {};

    Watch(const std::atomic<bool>& stopped, void (*check)()) : stopped_(stopped), check_(check) {}

    // To be called after each piece of work, however small; `points` is its size. Throws if the call has ended.
    void pass(std::size_t points) {
        constexpr std::size_t points_a_look = 1 << 14;  // some hundred microseconds, much more than a look at the clock
        if ((passed_ += points) < points_a_look) return;
        passed_ = 0;
        look();
    }

private:
    void look() {
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

// Runs worker(task) for each task in [0, tasks). Every thread calls make_worker(watch) once and so owns its scratch
// memory. Tasks write to places of their own; which thread does which task never shows in a result.
template <class MakeWorker>
void share_out(std::size_t tasks, const Execution& execution, MakeWorker make_worker) {
    std::atomic<std::size_t> next{0};
    std::atomic<bool> stopped{false};
    std::exception_ptr failure;
    std::mutex mutex;  // of `failure` and `running`
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
        // The system gives no more threads: those already running, and this one, do the work.
    }
    run(execution.check);
    if (execution.check) {  // the others may be in the middle of long tasks
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
