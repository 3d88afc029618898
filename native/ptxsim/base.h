// Integers by their width, and numbers that many files use.
#pragma once

#include <cstdint>

namespace ptxsim {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using s8 = int8_t;
using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;

constexpr u32 kLanes = 32;
constexpr u32 kAll = ~0u;   // the mask of all lanes
constexpr u32 kNone = ~0u;  // no register

// Generic addresses of shared and local memory, far from all addresses of the host.
constexpr u64 kSharedWindow = u64{1} << 60;
constexpr u64 kLocalWindow = u64{1} << 61;

// Computes all 32 lanes, from the slots of its sources, into `result`; nothing else changes.
using LaneFunction = void (*)(const char* registers, const u32* sources, void* result);

}  // namespace ptxsim
