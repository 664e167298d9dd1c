// A minimal test framework: TEST_CASE defines a test that registers itself, CHECK records a failure and continues.
//
// doctest and Catch2 are not on PyPI, and the tests must build where only Python, make and a compiler are installed.
#pragma once

#include <cstdio>
#include <exception>
#include <vector>

namespace check {

struct Test {
    const char* name;
    void (*run)();
};

inline std::vector<Test>& tests() {
    static std::vector<Test> all;
    return all;
}

inline int failures = 0;

struct Registration {
    Registration(const char* name, void (*run)()) { tests().push_back({name, run}); }
};

inline void record(bool passed, const char* expression, const char* file, int line) {
    constexpr int most_shown = 20;
    if (passed) return;
    if (++failures <= most_shown) std::printf("%s:%d: CHECK(%s) failed\n", file, line, expression);
}

// Runs all tests; returns the exit status.
inline int run_all() {
    for (const Test& test : tests()) {
        const int before = failures;
        try {
            test.run();
        } catch (const std::exception& error) {
            ++failures;
            std::printf("%s: unexpected exception: %s\n", test.name, error.what());
        }
        std::printf("%s %s\n", failures == before ? "passed" : "FAILED", test.name);
    }
    std::printf("%zu tests, %d failed checks\n", tests().size(), failures);
    return failures == 0 ? 0 : 1;
}

}  // namespace check

#define CHECK_JOIN_(a, b) a##b
#define CHECK_JOIN(a, b) CHECK_JOIN_(a, b)
#define TEST_CASE(name)                                                                                      \
    static void CHECK_JOIN(test_, __LINE__)();                                                               \
    static const check::Registration CHECK_JOIN(registration_, __LINE__)(name, CHECK_JOIN(test_, __LINE__)); \
    static void CHECK_JOIN(test_, __LINE__)()
#define CHECK(...) check::record(static_cast<bool>(__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)
