#include "body.h"

#include <algorithm>

#include "../exec/handlers.h"
#include "../lanes/find.h"

namespace ptxsim {
namespace {

u32 aligned(u64 offset, u32 align) {
  return static_cast<u32>((offset + align - 1) / align * align);
}

}  // namespace

void declare_shared(Kernel& kernel, Scope& scope, const Declaration& d) {
  if (d.count == 0) {
    scope.declare(d.name, {Symbol::dynamic_shared, Width::word, 32, 0, 0});
    return;
  }
  const u32 offset = aligned(kernel.static_shared, d.align);
  kernel.static_shared = offset + static_cast<u32>(d.bytes());
  scope.declare(d.name, {Symbol::shared, Width::word, 32, 0, offset});
}

u64 Body::place_local(const Declaration& d) {
  const u32 offset = aligned(kernel_.local_bytes, std::max(8u, d.align));
  kernel_.local_bytes = offset + static_cast<u32>(d.bytes());
  return offset;
}

void Body::run(size_t first, size_t last) {
  // Shared variables of the module take room only in kernels that name them.
  for (size_t k = first; k < last; ++k) {
    const auto found = context_.shared->find((*context_.tokens)[k].text);
    if (found != context_.shared->end() && scope_.find(found->first) == nullptr)
      declare_shared(kernel_, scope_, found->second);
  }
  expand(Cursor(*context_.tokens, first, last), false);
}

void Body::expand(Cursor cursor, bool is_function) {
  Level level;
  level.is_function = is_function;
  while (!cursor.done()) read_item(cursor, level);
  resolve(level, cursor);
}

void Body::read_item(Cursor& cursor, Level& level) {
  const std::string_view word = cursor.peek();
  if (word == "{") {
    cursor.next();
    scope_.enter();
  } else if (word == "}") {
    cursor.next();
    scope_.leave();
  } else if (word == ";") {
    cursor.next();
  } else if (word.starts_with(".")) {
    read_directive(cursor, level, cursor.next());
  } else if (cursor.peek(1) == ":") {
    cursor.next();
    cursor.next();
    if (cursor.is(".branchtargets")) {
      cursor.next();
      auto& targets = level.targets[word];
      while (!cursor.take(";")) {
        targets.push_back(cursor.next());
        cursor.take(",");
      }
    } else if (cursor.is(".callprototype") || cursor.is(".calltargets")) {
      cursor.skip_past(";");
    } else {
      level.labels[word] = static_cast<s32>(kernel_.code.size());
    }
  } else {
    read_statement(cursor, level);
  }
}

void Body::read_directive(Cursor& cursor, Level&, std::string_view word) {
  if (word == ".reg") {
    read_registers(cursor);
  } else if (word == ".loc") {
    read_location(cursor);
  } else if (word == ".local" || word == ".shared" || word == ".param") {
    read_variable(cursor, word);
  } else if (word == ".pragma") {
    cursor.skip_past(";");
  } else if (word == ".file") {
    cursor.skip_line();
  } else {
    cursor.fail("expected a directive that the simulator knows, not " + std::string(word));
  }
}

// .reg .b32 %r<10>;  .reg .pred p, q;
void Body::read_registers(Cursor& cursor) {
  std::string_view type = cursor.next().substr(1);
  const u32 bits = type_bits(type);
  if (bits == 0 || bits > 64)
    cursor.fail("expected registers of at most 64 bits, not " + std::string(type));
  while (!cursor.take(";")) {
    const std::string_view name = cursor.next();
    if (cursor.take("<")) {
      scope_.declare_registers(name, static_cast<u32>(cursor.number()), bits);
      cursor.expect(">");
    } else {
      const Width width = width_of(bits);
      scope_.declare(name, {Symbol::reg, width, static_cast<u8>(bits), scope_.new_slot(width), 0});
    }
    cursor.take(",");
  }
}

// .loc file line column [, function_name label, inlined_at file line column]
void Body::read_location(Cursor& cursor) {
  Location& at = decoder_.at;
  at.file = static_cast<u32>(cursor.number());
  const u32 line = static_cast<u32>(cursor.number());
  const u32 text_line = cursor.line();
  cursor.number();
  at.outer_file = at.outer_line = 0;
  while (!cursor.done() && cursor.line() == text_line) {
    if (cursor.next() != "inlined_at") continue;
    at.outer_file = static_cast<u32>(cursor.number());
    at.outer_line = static_cast<u32>(cursor.number());
  }
  if (line != 0) at.line = line;  // line 0: the compiler's own code
}

void Body::read_variable(Cursor& cursor, std::string_view space) {
  const Declaration d = read_declaration(cursor);
  cursor.expect(";");
  if (space == ".shared") {
    declare_shared(kernel_, scope_, d);
  } else {
    scope_.declare(d.name, {Symbol::local, Width::word, 32, 0, place_local(d)});
  }
}

void Body::read_statement(Cursor& cursor, Level& level) {
  const Statement s = cursor.statement();
  if (s.op() == "bra" || s.op() == "brx") {
    branch(s, level);
  } else if (s.op() == "call") {
    call(s, cursor);
  } else if (s.op() == "ret" && level.is_function) {
    level.jumps.push_back({kernel_.code.size(), ""});
    decoder_.append_branch(s, -1);
  } else {
    decoder_.decode(s);
  }
}

void Body::branch(const Statement& s, Level& level) {
  note_instruction(s.op());
  Instruction& i = decoder_.append_branch(s, -1);
  const size_t pc = static_cast<size_t>(&i - kernel_.code.data());
  if (s.op() == "bra")
    level.jumps.push_back({pc, s.operands.at(0).text});
  else
    level.tables.emplace_back(pc, s.operands.at(1).text);
}

// call (result), name, (a, b); parameters are variables in local memory, and the function's own are
// the same variables.
void Body::call(const Statement& s, Cursor& cursor) {
  std::vector<std::string_view> results, params;
  std::string_view name;
  for (const Operand& o : s.operands) {
    auto& names = name.empty() ? results : params;
    if (o.type == Operand::call_list)
      for (const Operand& item : o.items) names.push_back(item.text);
    else if (name.empty())
      name = o.text;
  }
  const auto address = [&](std::string_view param) -> u64 {
    const Symbol* symbol = scope_.find(param);
    if (symbol == nullptr || symbol->type != Symbol::local)
      cursor.fail("expected a parameter, not " + std::string(param));
    return symbol->address;
  };
  if (name == "vprintf" || name == "__assertfail") {
    std::vector<u32> slots;
    for (const std::string_view param : params) slots.push_back(static_cast<u32>(address(param)));
    for (const std::string_view result : results)
      slots.push_back(static_cast<u32>(address(result)));
    decoder_.append_call(s, name == "vprintf" ? run_print : run_assert, slots);
    return;
  }
  const auto found = context_.functions->find(name);
  if (found == context_.functions->end() || found->second.first == 0)
    cursor.fail("expected a call of a function of this module, not of " + std::string(name) + " (" +
                s.text + ")");
  if (std::find(calls_.begin(), calls_.end(), name) != calls_.end())
    cursor.fail("expected no recursion, but " + std::string(name) + " calls itself");
  const Function& function = found->second;
  if (function.params.size() != params.size() || function.results.size() != results.size())
    cursor.fail("expected a call with as many parameters as " + std::string(name) + " has");
  if (!s.guard.empty()) cursor.fail("expected a call without a guard");
  note_instruction("call");
  calls_.push_back(name);
  const Location before = decoder_.at;
  std::vector<u64> addresses;
  for (const auto& p : params) addresses.push_back(address(p));
  for (const auto& r : results) addresses.push_back(address(r));
  scope_.enter();
  for (size_t k = 0; k < params.size() + results.size(); ++k) {
    const Declaration& d =
        k < params.size() ? function.params[k] : function.results[k - params.size()];
    scope_.declare(d.name, {Symbol::local, Width::word, 32, 0, addresses[k]});
  }
  expand(Cursor(*context_.tokens, function.first, function.last), true);
  scope_.leave();
  decoder_.at = before;
  calls_.pop_back();
}

void Body::resolve(Level& level, const Cursor& cursor) {
  level.labels[""] = static_cast<s32>(kernel_.code.size());  // the end, where functions return
  const auto pc_of = [&](std::string_view label) {
    const auto found = level.labels.find(label);
    if (found == level.labels.end()) cursor.fail("expected the label " + std::string(label));
    return found->second;
  };
  for (const Jump& jump : level.jumps) kernel_.code[jump.pc].target = pc_of(jump.label);
  for (const auto& [pc, name] : level.tables) {
    std::vector<s32> table;
    for (const std::string_view label : level.targets[name]) table.push_back(pc_of(label));
    kernel_.code[pc].flags = static_cast<u32>(kernel_.branch_tables.size());
    kernel_.branch_tables.push_back(std::move(table));
  }
}

}  // namespace ptxsim
