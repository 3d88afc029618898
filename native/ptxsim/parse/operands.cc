#include "operands.h"

namespace ptxsim {

std::vector<std::string_view> split_words(std::string_view mnemonic) {
  std::vector<std::string_view> words;
  for (size_t first = 0;;) {
    const size_t dot = mnemonic.find('.', first);
    words.push_back(mnemonic.substr(first, dot - first));
    if (dot == std::string_view::npos) return words;
    first = dot + 1;
  }
}

u32 type_bits(std::string_view type) {
  if (type == "pred") return 1;
  if (type == "f16x2" || type == "bf16x2" || type == "tf32") return 32;
  const size_t digits = type.starts_with("bf") ? 2 : 1;
  if (type.size() <= digits || std::string_view("usbf").find(type[0]) == std::string_view::npos)
    return 0;
  u32 bits = 0;
  for (const char c : type.substr(digits)) {
    if (c < '0' || c > '9') return 0;
    bits = 10 * bits + static_cast<u32>(c - '0');
  }
  return bits == 8 || bits == 16 || bits == 32 || bits == 64 || bits == 128 ? bits : 0;
}

}  // namespace ptxsim
