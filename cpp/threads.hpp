// Sharing tasks out over threads that live for one call: nothing is left behind for a forked process to trip over.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace sphereot {

// Runs worker(task) for each task in [0, tasks). Every thread calls make_worker() once and so owns its scratch memory.
// Tasks write to places of their own; which thread does which task never shows in a result.
template <class MakeWorker>
void share_out(std::size_t tasks, std::size_t threads, MakeWorker make_worker) {
    std::atomic<std::size_t> next{0};
    std::exception_ptr failure;
    std::mutex failure_mutex;
    const auto run = [&] {
        try {
            auto worker = make_worker();
            for (std::size_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < tasks;) worker(task);
        } catch (...) {
            const std::lock_guard lock(failure_mutex);
            failure = std::current_exception();
            next.store(tasks, std::memory_order_relaxed);
        }
    };
    std::vector<std::thread> others;
    others.reserve(std::min(threads, tasks));
    try {
        for (std::size_t t = 1; t < threads && t < tasks; ++t) others.emplace_back(run);
    } catch (const std::system_error&) {
        // The system gives no more threads: those already running, and this one, do the work.
    }
    run();
    for (auto& other : others) other.join();
    if (failure) std::rethrow_exception(failure);
}

}  // namespace sphereot
