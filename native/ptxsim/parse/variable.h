// Declarations of variables: ".global .align 4 .b8 name[16] = {1, 2}".
#pragma once

#include <string_view>
#include <vector>

#include "cursor.h"

namespace ptxsim {

struct Initializer {
  u64 value = 0;
  std::string_view symbol;  // whose address it is
  bool generic = false;
};

struct Declaration {
  std::string_view name;
  std::string_view type;
  u32 align = 1;
  u64 count = 1;  // 0: of unknown size, as dynamic shared memory is
  std::vector<Initializer> values;

  u64 element_bytes() const { return type_bits(type) / 8; }
  u64 bytes() const { return count * element_bytes(); }
};

// From after the word of the space up to (not past) `;`, `,` or `)`.
Declaration read_declaration(Cursor& cursor);

}  // namespace ptxsim
