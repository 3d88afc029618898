// A kernel as the executor runs it: a flat list of decoded instructions over numbered registers.
//
// A register is a slot of the warp's register file: 32 lanes of 4 bytes (types of 8, 16 and 32
// bits), 32 lanes of 8 bytes, or, for a predicate, one word with a bit per lane. Constants and
// special registers (%tid.x) are slots too, filled before the kernel runs: every operand is a slot.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base.h"

namespace ptxsim {

struct Warp;
struct Instruction;

// Executes the lanes of a mask.
using Handler = void (*)(Warp&, const Instruction&, u32 mask);

enum class Space : u8 { global, shared, local, constant, param, generic };

enum class Kind : u8 {
  lanes,     // a LaneFunction
  plain,     // a Handler
  converge,  // a Handler that needs the other lanes of its member mask
  branch,
  branch_table,
  barrier,
  exit,
};

enum class Width : u8 { predicate, word, wide };  // a mask, 32 lanes of 4 bytes, of 8

constexpr u32 bytes_of(Width width) {
  return width == Width::predicate ? 4 : width == Width::word ? 4 * kLanes : 8 * kLanes;
}

struct Location {
  u32 ptx_line = 0;
  u32 file = 0, line = 0;              // in the CUDA source, by -lineinfo
  u32 outer_file = 0, outer_line = 0;  // where that was inlined, outermost
};

struct Instruction {
  Handler run = nullptr;
  LaneFunction lanes = nullptr;
  Kind kind = Kind::plain;
  Width result = Width::word;
  bool guard_negated = false;
  u32 guard = kNone;
  u32 dst[4] = {kNone, kNone, kNone, kNone};
  u32 src[11] = {};
  s64 immediate = 0;  // an address's offset; a table of lop3
  s32 target = -1;
  u32 flags = 0;  // what the handler makes of them
  // Accesses to memory:
  Space space = Space::generic;
  u8 bytes = 0;   // of an element
  u8 count = 1;   // elements of a vector
  u8 used = 0xf;  // elements whose register somebody reads
  bool sign_extended = false;
  bool wide_address = true;  // 64 bits
  bool wide_value = false;   // registers of 64 bits
  bool ordering = false;     // acquires or releases
  Location at;
  u32 text = 0;  // in Kernel::texts
};

struct Param {
  u32 offset, bytes;
};

struct Constant {
  u32 slot;
  Width width;
  u64 value;
  bool after_static_shared;  // the address of dynamic shared memory
};

// Special registers that are filled before a kernel runs, in the order of Kernel::special.
enum Special : u32 {
  kTid,
  kNtid = 3,
  kCtaid = 6,
  kNctaid = 9,
  kLaneId = 12,
  kWarpId,
  kNwarpId,
  kLaneMaskEq,
  kLaneMaskLt,
  kLaneMaskLe,
  kLaneMaskGt,
  kLaneMaskGe,
  kDynamicShared,
  kTotalShared,
  kSpecials
};

struct Kernel {
  std::string name;
  std::vector<Instruction> code;
  std::vector<std::string> texts;
  std::vector<std::vector<s32>> branch_tables;
  std::vector<Param> params;
  std::vector<Constant> constants;
  u32 special[kSpecials];  // slots, kNone where the kernel does not read them
  u32 param_bytes = 0;
  u32 register_bytes = 0;
  u32 static_shared = 0;
  u32 local_bytes = 0;
  u32 max_threads = 1024;
  u32 max_dynamic_shared = 48 << 10;
  u32 registers = 0;       // live at once, an estimate of what ptxas will need
  u32 global_granule = 4;  // the smallest element that it reads or writes
  u32 shared_granule = 4;
  bool ordered_blocks = false;  // atomics whose results depend on the order of blocks
  const std::vector<std::string>* files = nullptr;

  u32 dynamic_shared_offset() const { return (static_shared + 15) / 16 * 16; }
};

struct Variable {
  u64 address = 0, bytes = 0;
};

struct Module {
  std::string source;
  std::vector<std::string> files;
  std::map<std::string, std::unique_ptr<Kernel>, std::less<>> kernels;
  std::map<std::string, Variable, std::less<>> variables;
  ~Module();
};

}  // namespace ptxsim
