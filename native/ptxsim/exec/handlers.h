// The instructions that are not computed lane by lane, and what their flags mean.
#pragma once

#include "../program.h"

namespace ptxsim {

// Around a LaneFunction: rounding (1 to zero, 2 down, 3 up), flushing denormals, saturation.
void run_modified(Warp&, const Instruction&, u32 mask);
constexpr u32 kRoundingMask = 3, kFlush = 4, kSaturate = 8, kDouble = 16;

// setp with a second result and a combining predicate: 1 and, 2 or, 3 xor.
void run_setp(Warp&, const Instruction&, u32 mask);
constexpr u32 kInvert = 256;  // the comparison; above it two bits that say how to combine
constexpr u32 kCombine = 9, kCombineMask = 3;

// The types of cvt, as it reads and writes them.
enum class Number : u8 { u8_, s8_, u16_, s16_, u32_, s32_, u64_, s64_, f16, bf16, tf32, f32, f64 };
void run_convert(Warp&, const Instruction&, u32 mask);
// flags: to | from << 4 | rounding << 8 | saturate << 12 | relu << 13 | pair << 14 | integral << 15
// | ftz << 16; rounding: 0 nearest even, 1 zero, 2 down, 3 up, 4 nearest, ties away.

void run_pack(Warp&, const Instruction&, u32 mask);    // mov.b64 d, {a, b}; flags: parts
void run_unpack(Warp&, const Instruction&, u32 mask);  // mov.b64 {a, b}, d
void run_clock(Warp&, const Instruction&, u32 mask);   // flags: 1 for the time in nanoseconds
void run_window(Warp&, const Instruction&, u32 mask);  // cvta: adds `immediate`
void run_isspacep(Warp&, const Instruction&, u32 mask);
void run_nothing(Warp&, const Instruction&, u32 mask);
void run_trap(Warp&, const Instruction&, u32 mask);
void run_print(Warp&, const Instruction&, u32 mask);   // vprintf(src[0], src[1]) in local memory
void run_assert(Warp&, const Instruction&, u32 mask);  // __assertfail
void run_fence(Warp&, const Instruction&, u32 mask);

void run_load_param(Warp&, const Instruction&, u32 mask);
void run_load(Warp&, const Instruction&, u32 mask);
void run_store(Warp&, const Instruction&, u32 mask);  // values are src[1] and following
enum class Atomic : u8 { add, exch, cas, min, max, and_, or_, xor_, inc, dec };
void run_atomic(Warp&, const Instruction&, u32 mask);  // flags: Atomic | Number << 4 | pair << 8
void run_copy_async(Warp&, const Instruction&, u32 mask);   // src: to, from, bytes to read
void run_load_matrix(Warp&, const Instruction&, u32 mask);  // flags: 1 transposed

enum class Shuffle : u8 { up, down, bfly, idx };
void run_shuffle(Warp&, const Instruction&, u32 mask);  // src: value, b, c, members
enum class Vote : u8 { ballot, any, all, uni };
void run_vote(Warp&, const Instruction&, u32 mask);    // src: predicate, members
void run_match(Warp&, const Instruction&, u32 mask);   // flags: 1 all
void run_reduce(Warp&, const Instruction&, u32 mask);  // flags: Atomic | Number << 4
void run_sync_warp(Warp&, const Instruction&, u32 mask);
void run_active_mask(Warp&, const Instruction&, u32 mask);

// mma.sync; flags: shape and types.
enum class Mma : u8 { f16, bf16, tf32, s8, u8 };
void run_mma(Warp&, const Instruction&,
             u32 mask);  // flags: k | type of a and b << 8 | half result << 12

// Which lanes an instruction of Kind::converge needs: its member mask, for the lanes of `mask`.
constexpr u32 kMembers = 10;  // src[kMembers]: the register of the member mask; kNone for all lanes

// bar.sync and its like; src[0]: barrier, src[1]: count (kNone for all threads).
constexpr u32 kArrive = 1, kReducePopc = 2, kReduceAnd = 3, kReduceOr = 4;  // flags & 7
constexpr u32 kReduceNegated = 8;  // src[2]: the predicate of bar.red

}  // namespace ptxsim
