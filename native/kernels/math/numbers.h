// What functions of one element are written with, and casts (common/elements/), for the kernels.
#pragma once

#include <cstdint>

#include "kernels/simd/inline.h"

#define ELEMENT NEEDLE_INLINE
#define LIB(name) __builtin_##name  // math.h takes as long to compile as a small kernel
#ifndef INFINITY
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#endif

namespace needle::NEEDLE_ISA {
namespace {

#include "common/elements/numbers.h"
// Numbers first.
#include "common/elements/cast.h"

}  // namespace
}  // namespace needle::NEEDLE_ISA
