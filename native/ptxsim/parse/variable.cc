#include "variable.h"

#include <algorithm>

namespace ptxsim {
namespace {

Initializer read_value(Cursor& cursor) {
  Initializer value;
  if (is_number(cursor.peek()) || cursor.is("-")) {
    value.value = cursor.number();
    return value;
  }
  value.generic = cursor.take("generic");
  if (value.generic) cursor.expect("(");
  value.symbol = cursor.next();
  if (value.generic) cursor.expect(")");
  if (cursor.take("+")) value.value = cursor.number();
  return value;
}

void read_values(Cursor& cursor, std::vector<Initializer>& values) {
  if (!cursor.take("{")) {
    values.push_back(read_value(cursor));
    return;
  }
  while (!cursor.take("}")) {
    read_values(cursor, values);
    cursor.take(",");
  }
}

}  // namespace

Declaration read_declaration(Cursor& cursor) {
  Declaration d;
  u64 vector = 1;
  while (cursor.peek().starts_with(".")) {
    const std::string_view word = cursor.next();
    if (word == ".align") {
      d.align = static_cast<u32>(cursor.number());
    } else if (word == ".ptr") {  // of a parameter that is a pointer
      if (cursor.is(".global") || cursor.is(".shared") || cursor.is(".local") ||
          cursor.is(".const"))
        cursor.next();
    } else if (word == ".attribute") {
      cursor.skip_brackets("(", ")");
    } else if (word == ".v2" || word == ".v4") {
      vector = word == ".v2" ? 2 : 4;
    } else if (type_bits(word.substr(1)) != 0) {
      d.type = word.substr(1);
    } else {
      cursor.fail("expected a type, not " + std::string(word));
    }
  }
  d.name = cursor.next();
  while (cursor.take("[")) {
    d.count *= cursor.is("]") ? 0 : cursor.number();
    cursor.expect("]");
  }
  d.count *= vector;
  d.align = std::max<u32>(d.align, static_cast<u32>(d.element_bytes() * vector));
  if (cursor.take("=")) read_values(cursor, d.values);
  return d;
}

}  // namespace ptxsim
