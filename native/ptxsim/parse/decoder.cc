#include "decoder.h"

#include "../exec/handlers.h"
#include "../failure.h"
#include "../lanes/find.h"

namespace ptxsim {

void Decoder::fail(const std::string& why) const {
  throw Failure{kInvalidPtx, "[ptx] line " + std::to_string(statement_->line) + ": " + why + ": " +
                                 statement_->text};
}

const Operand& Decoder::operand(size_t index) const {
  if (index >= statement_->operands.size()) fail("expected more operands");
  return statement_->operands[index];
}

const Symbol& Decoder::symbol(std::string_view name) const {
  const Symbol* found = scope_.find(name);
  if (found == nullptr) fail("expected a declared name, got " + std::string(name));
  return *found;
}

Instruction Decoder::begin(Handler handler, Kind kind) {
  Instruction i;
  i.run = handler;
  i.kind = kind;
  return i;
}

void Decoder::emit(Instruction i) {
  i.at = at;
  i.at.ptx_line = statement_->line;
  i.text = static_cast<u32>(kernel_.texts.size()) - 1;
  if (!statement_->guard.empty()) {
    i.guard = symbol(statement_->guard).slot;
    i.guard_negated = statement_->guard_negated;
  }
  kernel_.code.push_back(i);
}

void Decoder::emit_lanes(std::string_view form, u32 dst, std::initializer_list<u32> sources,
                         bool guarded) {
  const Form* found = find_form(form);
  Instruction i = begin(nullptr, Kind::lanes);
  i.lanes = found->function;
  i.result = found->operands[0] == 'p'   ? Width::predicate
             : found->operands[0] == 'd' ? Width::wide
                                         : Width::word;
  i.dst[0] = dst;
  u32 k = 0;
  for (const u32 slot : sources) i.src[k++] = slot;
  emit(i);
  if (!guarded) kernel_.code.back().guard = kNone;
}

u32 Decoder::source(const Operand& from, Width width, bool is_signed) {
  if (from.type == Operand::number) return scope_.constant(from.value, width);
  if (from.type != Operand::name) fail("expected a register or a number");
  if (from.is_sink()) return scope_.constant(0, width);
  if (from.text == "WARP_SZ") return scope_.constant(kLanes, width);
  u32 slot = kNone;
  Width has = Width::word;
  if (from.text[0] == '%') slot = scope_.special(from.text);
  if (slot == kNone) {
    const Symbol& s = symbol(from.text);
    if (s.type != Symbol::reg)
      return scope_.constant(s.address, width, s.type == Symbol::dynamic_shared);
    slot = s.slot;
    has = s.width;
  }
  if (has == width) {
    if (!from.negated) return slot;
    const u32 inverse = scope_.new_slot(Width::predicate);
    emit_lanes("not.pred", inverse, {slot}, false);
    return inverse;
  }
  if (has == Width::predicate || width == Width::predicate)
    fail("expected " + std::string(width == Width::predicate ? "a predicate" : "a number") +
         " in " + std::string(from.text));
  const u32 converted = scope_.new_slot(width);
  emit_lanes(has == Width::wide ? "cvt.u32.u64"
             : is_signed        ? "cvt.s64.s32"
                                : "cvt.u64.u32",
             converted, {slot}, false);
  return converted;
}

u32 Decoder::result(const Operand& to, Width width, bool is_signed) {
  if (to.is_sink()) return scope_.new_slot(width);
  const Symbol& s = symbol(to.text);
  if (s.type != Symbol::reg) fail("expected a register");
  if (s.width == width) return s.slot;
  if (width == Width::predicate || s.width == Width::predicate)
    fail("expected another type in " + std::string(to.text));
  const u32 other = scope_.new_slot(width);
  widenings_.push_back({width == Width::wide ? "cvt.u32.u64"
                        : is_signed          ? "cvt.s64.s32"
                                             : "cvt.u64.u32",
                        s.slot, other});
  return other;
}

u32 Decoder::raw_result(const Operand& to, bool* is_wide) {
  if (to.is_sink()) return kNone;
  const Symbol& s = symbol(to.text);
  if (s.type != Symbol::reg || s.width == Width::predicate) fail("expected a register");
  *is_wide = s.width == Width::wide;
  return s.slot;
}

void Decoder::decode(const Statement& statement) {
  statement_ = &statement;
  kernel_.texts.push_back(statement.text);
  widenings_.clear();
  if (!decode_memory() && !decode_warp() && !decode_barrier() && !decode_move() &&
      !decode_convert() && !decode_compare() && !decode_misc() && !decode_lanes())
    fail("expected an instruction that the simulator knows, got");
  for (const Widening& w : widenings_) emit_lanes(w.form, w.to, {w.from}, true);
}

Instruction& Decoder::append_branch(const Statement& statement, s32 target) {
  statement_ = &statement;
  kernel_.texts.push_back(statement.text);
  Instruction i = begin(nullptr, statement.op() == "brx" ? Kind::branch_table : Kind::branch);
  i.target = target;
  if (i.kind == Kind::branch_table) i.src[0] = source(operand(0), Width::word);
  emit(i);
  return kernel_.code.back();
}

void Decoder::append_call(const Statement& statement, Handler handler,
                          const std::vector<u32>& params) {
  statement_ = &statement;
  kernel_.texts.push_back(statement.text);
  Instruction i = begin(handler);
  for (size_t k = 0; k < params.size() && k < 8; ++k) i.src[k] = params[k];
  note_instruction("call");
  emit(i);
}

bool Decoder::decode_misc() {
  const std::string_view op = statement_->op();
  if (op == "ret" || op == "exit") {
    note_instruction("exit");
    emit(begin(nullptr, Kind::exit));
    return true;
  }
  if (op == "trap" || op == "brkpt") {
    note_instruction("trap");
    emit(begin(run_trap));
    return true;
  }
  if (op == "membar" || op == "fence") {
    note_instruction("fence");
    emit(begin(run_fence));
    return true;
  }
  if (op == "prefetch" || op == "prefetchu" || op == "discard" || op == "applypriority" ||
      op == "nanosleep" || op == "pmevent" || op == "griddepcontrol" || op == "setmaxnreg") {
    note_instruction("prefetch");
    emit(begin(run_nothing));
    return true;
  }
  if (op == "isspacep") {
    note_instruction("isspacep");
    Instruction i = begin(run_isspacep);
    i.space = space_of(Space::global);
    i.dst[0] = result(operand(0), Width::predicate);
    i.src[0] = source(operand(1), Width::wide);
    emit(i);
    return true;
  }
  if (op == "cvta") {
    note_instruction("cvta");
    const Space space = space_of(Space::global);
    const u64 window = space == Space::shared  ? kSharedWindow
                       : space == Space::local ? kLocalWindow
                                               : 0;
    if (space == Space::param) fail("expected no generic address of a parameter, got");
    Instruction i = begin(run_window);
    i.immediate = static_cast<s64>(statement_->has("to") ? 0 - window : window);
    i.dst[0] = result(operand(0), Width::wide);
    i.src[0] = source(operand(1), Width::wide);
    emit(i);
    return true;
  }
  return false;
}

}  // namespace ptxsim
