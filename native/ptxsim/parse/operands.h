// An instruction as it is written: guard, words of the mnemonic, operands by name.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "../base.h"

namespace ptxsim {

struct Operand {
  enum Type : u8 { name, number, address, vector, call_list };
  Type type = name;
  bool negated = false;        // !p
  std::string_view text;       // of a name; of an address that begins with one
  u64 value = 0;               // of a number
  s64 offset = 0;              // of an address
  std::vector<Operand> items;  // of a vector, of a call; the q of p|q

  bool is_sink() const { return type == name && text == "_"; }
};

struct Statement {
  u32 line = 0;
  std::string_view guard;
  bool guard_negated = false;
  std::string_view mnemonic;
  std::vector<std::string_view> words;  // of the mnemonic: "add", "s32"
  std::vector<Operand> operands;
  std::string text;  // for reports

  const std::string_view& op() const { return words[0]; }
  bool has(std::string_view word) const {
    for (const auto& w : words)
      if (w == word) return true;
    return false;
  }
  // The last of its types: "s32" in cvt.rn.f32.s32 is type(0), "f32" type(1).
  std::string_view type(size_t from_end = 0) const { return words[words.size() - 1 - from_end]; }
};

std::vector<std::string_view> split_words(std::string_view mnemonic);

// Bits of "u16", "f16x2" (32), "pred" (1); 0 if it is no type.
u32 type_bits(std::string_view type);

}  // namespace ptxsim
