// Reads tokens one after the other.
#pragma once

#include <string>
#include <vector>

#include "../failure.h"
#include "lexer.h"
#include "operands.h"

namespace ptxsim {

class Cursor {
 public:
  Cursor(const std::vector<Token>& tokens, size_t first, size_t last)
      : tokens_(&tokens), at_(first), last_(last) {}

  bool done() const { return at_ >= last_; }
  bool is(std::string_view text) const { return !done() && peek() == text; }
  std::string_view peek(size_t ahead = 0) const {
    return at_ + ahead < last_ ? (*tokens_)[at_ + ahead].text : std::string_view();
  }
  u32 line() const { return tokens_->empty() ? 0 : (*tokens_)[at_ < last_ ? at_ : last_ - 1].line; }
  size_t position() const { return at_; }
  void move_to(size_t position) { at_ = position; }
  std::string_view next();
  bool take(std::string_view text);  // if it comes next
  void expect(std::string_view text);
  void skip_past(std::string_view text);
  void skip_line();
  // Past a bracketed region that begins here.
  void skip_brackets(std::string_view open, std::string_view close);
  u64 number();
  Statement statement();

  [[noreturn]] void fail(const std::string& why) const;

 private:
  Operand operand();
  Operand address();
  Operand list(std::string_view close, Operand::Type type);

  const std::vector<Token>* tokens_;
  size_t at_, last_;
};

bool is_number(std::string_view text);
u64 number_of(std::string_view text);  // 12, 0x1F, 12U, 0f3F800000, 0d3FF0000000000000

}  // namespace ptxsim
