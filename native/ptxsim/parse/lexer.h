// PTX text as tokens.
#pragma once

#include <string_view>
#include <vector>

#include "../base.h"

namespace ptxsim {

struct Token {
  std::string_view text;
  u32 line = 0;
};

// Words ("add.s32", "%r1", "$L__BB0_1", ".reg", "0f3F800000"), strings with their quotes, and
// single characters. Views into `source`, which must outlive them.
std::vector<Token> tokens_of(std::string_view source);

}  // namespace ptxsim
