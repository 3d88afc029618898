// The elementwise functions by name in the kernels: common/formulas.h on numbers and on vectors.
#pragma once

#include "common/elementwise.h"
#include "kernels/simd/floats.h"

namespace needle::NEEDLE_ISA {
namespace {

#include "common/formulas.h"

}  // namespace
}  // namespace needle::NEEDLE_ISA
