#include "cursor.h"

#include <cstdlib>

namespace ptxsim {

bool is_number(std::string_view text) { return !text.empty() && text[0] >= '0' && text[0] <= '9'; }

u64 number_of(std::string_view text) {
  const std::string copy(text);
  if (text.size() > 2 && text[0] == '0' &&
      (text[1] == 'f' || text[1] == 'F' || text[1] == 'd' || text[1] == 'D'))
    return std::strtoull(copy.c_str() + 2, nullptr, 16);
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'b' || text[1] == 'B'))
    return std::strtoull(copy.c_str() + 2, nullptr, 2);
  return std::strtoull(copy.c_str(), nullptr, 0);
}

void Cursor::fail(const std::string& why) const {
  throw Failure{kInvalidPtx, "[ptx] line " + std::to_string(line()) + ": " + why + ", got " +
                                 (done() ? "the end" : std::string(peek()))};
}

std::string_view Cursor::next() {
  if (done()) fail("expected more text");
  return (*tokens_)[at_++].text;
}

bool Cursor::take(std::string_view text) {
  if (!is(text)) return false;
  ++at_;
  return true;
}

void Cursor::expect(std::string_view text) {
  if (!take(text)) fail("expected " + std::string(text));
}

void Cursor::skip_past(std::string_view text) {
  while (next() != text) {
  }
}

void Cursor::skip_line() {
  const u32 line = (*tokens_)[at_ - 1].line;
  while (!done() && (*tokens_)[at_].line == line) ++at_;
}

void Cursor::skip_brackets(std::string_view open, std::string_view close) {
  expect(open);
  for (u32 depth = 1; depth != 0;) {
    const std::string_view token = next();
    if (token == open) ++depth;
    if (token == close) --depth;
  }
}

u64 Cursor::number() {
  const bool negative = take("-");
  if (!is_number(peek())) fail("expected a number");
  const u64 value = number_of(next());
  return negative ? 0 - value : value;
}

Operand Cursor::list(std::string_view close, Operand::Type type) {
  Operand operand;
  operand.type = type;
  while (!take(close)) {
    operand.items.push_back(this->operand());
    take(",");
  }
  return operand;
}

// [%rd1+4], [name], [%r1+-4], [name+0], [4]
Operand Cursor::address() {
  Operand operand;
  operand.type = Operand::address;
  if (!is_number(peek()) && !is("-")) operand.text = next();
  while (!take("]")) {
    const bool minus = !take("+") && take("-");
    const u64 value = number();
    operand.offset += static_cast<s64>(minus ? 0 - value : value);
  }
  return operand;
}

Operand Cursor::operand() {
  if (take("{")) return list("}", Operand::vector);
  if (take("(")) return list(")", Operand::call_list);
  if (take("[")) return address();
  Operand operand;
  if (is("-") || is_number(peek())) {
    operand.type = Operand::number;
    operand.value = number();
    return operand;
  }
  operand.negated = take("!");
  operand.text = next();
  if (take("|")) {  // p|q
    Operand pair;
    pair.type = Operand::vector;
    pair.items = {operand, this->operand()};
    return pair;
  }
  if (take("+")) {  // name+4, as mov has it
    operand.type = Operand::address;
    operand.offset = static_cast<s64>(number());
  }
  return operand;
}

Statement Cursor::statement() {
  Statement s;
  s.line = line();
  if (take("@")) {
    s.guard_negated = take("!");
    s.guard = next();
  }
  s.line = line();
  s.mnemonic = next();
  s.words = split_words(s.mnemonic);
  const size_t first = at_;
  while (!take(";")) {
    s.operands.push_back(operand());
    if (!is(";")) take(",");
  }
  if (!s.guard.empty()) s.text = (s.guard_negated ? "@!" : "@") + std::string(s.guard) + " ";
  s.text += s.mnemonic;
  std::string_view before;
  for (size_t k = first; k + 1 < at_; ++k) {
    const std::string_view token = (*tokens_)[k].text;
    const bool tight = token == "," || token == "]" || token == "}" || token == ")" ||
                       token == "+" || before == "[" || before == "{" || before == "(" ||
                       before == "+" || before == "-" || before == "!" || token == "|" ||
                       before == "|";
    if (!tight) s.text += ' ';
    s.text += token;
    before = token;
  }
  s.text += ';';
  return s;
}

}  // namespace ptxsim
