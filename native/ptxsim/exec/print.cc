// printf and assert of kernels. Their arguments lie in local memory, as the compiler passes them.
#include <cstdio>
#include <cstring>

#include "access.h"

namespace ptxsim {
namespace {

// A text in global or constant memory, up to its end.
std::string text_at(Warp& warp, u32 lane, u64 address) {
  Allocation* allocation = device_memory().find(address);
  if (allocation == nullptr)
    fail(warp, lane, kIllegalAddress, "expected a text in global memory, got " + hex(address));
  const char* first = reinterpret_cast<const char*>(address);
  return std::string(first, strnlen(first, allocation->base + allocation->bytes - address));
}

// Arguments follow each other at multiples of their size.
class Arguments {
 public:
  explicit Arguments(const char* at) : at_(at) {}
  template <class T>
  T next() {
    offset_ = (offset_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    T value;
    std::memcpy(&value, at_ + offset_, sizeof value);
    offset_ += sizeof value;
    return value;
  }

 private:
  const char* at_;
  u64 offset_ = 0;
};

template <class T>
std::string formatted(const std::string& spec, T value) {
  char text[512];
  std::snprintf(text, sizeof text, spec.c_str(), value);
  return text;
}

std::string format(Warp& warp, u32 lane, const std::string& pattern, Arguments arguments) {
  std::string text;
  for (size_t at = 0; at < pattern.size();) {
    if (pattern[at] != '%') {
      text += pattern[at++];
      continue;
    }
    const size_t end = pattern.find_first_of("diouxXcsfFeEgGaAp%", at + 1);
    if (end == std::string::npos) return text + pattern.substr(at);
    const std::string spec = pattern.substr(at, end + 1 - at);
    const bool is_long = spec.find('l') != std::string::npos;
    at = end + 1;
    switch (spec.back()) {
      case '%': text += '%'; break;
      case 's': text += formatted(spec, text_at(warp, lane, arguments.next<u64>()).c_str()); break;
      case 'p': text += hex(arguments.next<u64>()); break;
      case 'd':
      case 'i':
      case 'o':
      case 'u':
      case 'x':
      case 'X':
      case 'c':
        text += is_long ? formatted(spec, arguments.next<s64>())
                        : formatted(spec, arguments.next<s32>());
        break;
      default: text += formatted(spec, arguments.next<double>());
    }
  }
  return text;
}

u64 param(Warp& warp, u32 lane, u32 slot, u32 bytes) {  // slot: its place in local memory
  const u64 stride = (warp.block->kernel().local_bytes + u64{63}) / 64 * 64;
  u64 value = 0;
  std::memcpy(&value, warp.local + lane * stride + slot, bytes);
  return value;
}

}  // namespace

void run_print(Warp& warp, const Instruction& i, u32 mask) {
  const u64 stride = (warp.block->kernel().local_bytes + u64{63}) / 64 * 64;
  FOR_LANES(lane, mask) {
    const std::string pattern = text_at(warp, lane, param(warp, lane, i.src[0], 8));
    const u64 arguments = param(warp, lane, i.src[1], 8);
    const char* at =
        arguments == 0 ? nullptr : warp.local + lane * stride + (arguments - kLocalWindow);
    warp.block->output += format(warp, lane, pattern, Arguments(at));
    const u64 result = lane * stride + i.src[2];  // how many arguments there were; 0 says enough
    std::memset(warp.local + result, 0, 4);
    if (!warp.local_written.empty()) warp.local_written[result / 64] |= u64{15} << result % 64;
  }
}

void run_assert(Warp& warp, const Instruction& i, u32 mask) {
  const u32 lane = first_lane(mask);
  fail(warp, lane, kAssert,
       "expected " + text_at(warp, lane, param(warp, lane, i.src[0], 8)) + " (assert, line " +
           std::to_string(param(warp, lane, i.src[2], 4)) + ")");
}

}  // namespace ptxsim
