// What the language cannot say to a compiler.
#pragma once

// Inlines a function into its caller: a call that is left in a loop keeps the loop from being vectorized.
#if defined(_MSC_VER)
#define SPHEREOT_INLINE __forceinline
#else
#define SPHEREOT_INLINE [[gnu::always_inline]] inline
#endif

// A statement in the body of a loop that is not to be vectorized. An empty assembler instruction does it for every
// version of GCC and Clang; `#pragma GCC novector` needs GCC 14.
#if defined(__GNUC__) || defined(__clang__)
#define SPHEREOT_NO_VECTORIZE __asm__ volatile("")
#else
#define SPHEREOT_NO_VECTORIZE static_cast<void>(0)
#endif
