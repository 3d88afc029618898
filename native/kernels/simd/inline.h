// Functions that become part of the loop that calls them, and lambdas that do.
#pragma once

#define NEEDLE_INLINE [[gnu::always_inline]] inline
#define NEEDLE_INLINE_LAMBDA __attribute__((always_inline))  // after the parameters
