// Where something happened, in words.
#include <cstdio>

#include "warp.h"

namespace ptxsim {
namespace {

std::string triple(u64 number, const Dims& dims) {
  const u64 x = number % dims.x, y = number / dims.x % dims.y, z = number / dims.x / dims.y;
  return "(" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) + ")";
}

}  // namespace

std::string hex(u64 value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string describe_line(const Kernel& kernel, u32 pc) {
  const Instruction& instruction = kernel.code[pc];
  const Location& at = instruction.at;
  std::string text;
  const auto add = [&](u32 file, u32 line) {
    if (line != 0 && file < kernel.files->size())
      text += (*kernel.files)[file] + ":" + std::to_string(line) + ": ";
  };
  add(at.outer_file, at.outer_line);
  if (at.line != at.outer_line || at.file != at.outer_file) add(at.file, at.line);
  return text + kernel.texts[instruction.text] + " (PTX line " + std::to_string(at.ptx_line) + ")";
}

std::string describe_site(const Launch& launch, u32 block, u32 thread, u32 pc) {
  return "block " + triple(block, launch.grid) + ", thread " + triple(thread, launch.block) + ": " +
         describe_line(*launch.kernel, pc);
}

void fail(const Warp& warp, u32 lane, Result result, const std::string& text) {
  const Block& block = *warp.block;
  const u32 thread = warp.index * kLanes + lane;
  throw Failure{result,
                "[" + block.kernel().name + "] " + text + "\n  " +
                    describe_site(*block.launch, block.number, thread, static_cast<u32>(warp.pc))};
}

}  // namespace ptxsim
