// The body of a kernel. Functions that it calls are expanded where they are called: threads then
// need no call stack, and reconverge as in other code.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cursor.h"
#include "decoder.h"
#include "variable.h"

namespace ptxsim {

struct Function {
  std::vector<Declaration> results, params;
  size_t first = 0, last = 0;  // tokens of the body, without its braces
};

struct Context {
  const std::vector<Token>* tokens;
  const std::map<std::string_view, Function>* functions;
  Module* module;
  const std::map<std::string_view, Declaration>* shared;  // of the module
};

class Body {
 public:
  Body(const Context& context, Kernel& kernel)
      : context_(context), kernel_(kernel), scope_(kernel), decoder_(kernel, scope_) {}

  Scope& scope() { return scope_; }
  void run(size_t first, size_t last);

 private:
  struct Jump {
    size_t pc;
    std::string_view label;
  };
  // One expansion: a kernel, or a function where it is called.
  struct Level {
    std::map<std::string_view, s32> labels;
    std::vector<Jump> jumps;
    std::map<std::string_view, std::vector<std::string_view>> targets;  // .branchtargets
    std::vector<std::pair<size_t, std::string_view>> tables;            // brx.idx: pc, table
    bool is_function = false;
  };

  void expand(Cursor cursor, bool is_function);
  void read_item(Cursor& cursor, Level& level);
  void read_directive(Cursor& cursor, Level& level, std::string_view word);
  void read_registers(Cursor& cursor);
  void read_location(Cursor& cursor);
  void read_variable(Cursor& cursor, std::string_view space);
  void read_statement(Cursor& cursor, Level& level);
  void branch(const Statement& statement, Level& level);
  void call(const Statement& statement, Cursor& cursor);
  void resolve(Level& level, const Cursor& cursor);
  u64 place_local(const Declaration& d);

  const Context& context_;
  Kernel& kernel_;
  Scope scope_;
  Decoder decoder_;
  std::vector<std::string_view> calls_;  // being expanded
};

// Declares a module's shared variables in a kernel, those that it names.
void declare_shared(Kernel& kernel, Scope& scope, const Declaration& d);

}  // namespace ptxsim
