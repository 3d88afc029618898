// Arithmetic: the words of a mnemonic become the name of a form, and flags around it.
#include <algorithm>

#include "../exec/handlers.h"
#include "../lanes/find.h"
#include "decoder.h"

namespace ptxsim {
namespace {

Width width_of_letter(char letter) {
  return letter == 'p' ? Width::predicate : letter == 'd' ? Width::wide : Width::word;
}

// Types whose forms have one name: adding signed and unsigned numbers is the same.
std::string_view form_type(std::string_view op, std::string_view type) {
  static const std::string_view bitwise[] = {"mov", "selp", "slct", "and", "or", "xor", "not"};
  if (std::find(std::begin(bitwise), std::end(bitwise), op) == std::end(bitwise)) return type;
  switch (type_bits(type)) {
    case 16: return op == "selp" || op == "slct" ? "b32" : "b16";
    case 32: return "b32";
    case 64: return "b64";
    default: return type;
  }
}

bool is_comparison_of_floats(std::string_view type) {
  return type[0] == 'f' || type.starts_with("bf");
}

struct Modifiers {
  std::string name;
  u32 flags = 0;
};

// Words that change nothing here: approximations are computed as exactly as they can be.
bool is_silent(std::string_view word) {
  return word == "rn" || word == "approx" || word == "full" || word == "uni" || word == "noftz";
}

Modifiers modifiers_of(const Statement& s) {
  Modifiers m;
  m.name = s.op();
  for (size_t k = 1; k < s.words.size(); ++k) {
    const std::string_view word = s.words[k];
    if (is_silent(word)) continue;
    if (word == "ftz") {
      m.flags |= kFlush;
    } else if (word == "sat") {
      m.flags |= kSaturate;
    } else if (word == "rz" || word == "rm" || word == "rp") {
      m.flags |= word == "rz" ? 1 : word == "rm" ? 2 : 3;
    } else {
      m.name += '.';
      const bool chooses = s.op() == "slct" && k + 1 == s.words.size();  // the type of its sign
      m.name += chooses ? word : form_type(s.op(), word);
    }
  }
  const std::string_view type = s.type();
  if (type == "f64") m.flags |= kDouble;
  if (type != "f32") m.flags &= ~kFlush;  // only float32 is ever flushed here
  return m;
}

struct Comparison {
  const char* word;
  const char* form;  // eq, lt or le
  bool swapped, inverted, unordered;
};

// gt(a, b) is lt(b, a); for floats the unordered ltu(a, b) is the opposite of le(b, a).
const Comparison kComparisons[] = {
    {"eq", "eq", false, false, false},  {"ne", "eq", false, true, false},
    {"lt", "lt", false, false, false},  {"le", "le", false, false, false},
    {"gt", "lt", true, false, false},   {"ge", "le", true, false, false},
    {"lo", "lt", false, false, false},  {"ls", "le", false, false, false},
    {"hi", "lt", true, false, false},   {"hs", "le", true, false, false},
    {"neu", "eq", false, true, true},   {"ltu", "le", true, true, true},
    {"leu", "lt", true, true, true},    {"gtu", "le", false, true, true},
    {"geu", "lt", false, true, true},   {"num", "num", false, false, false},
    {"nan", "num", false, true, false}, {"equ", "equ", false, false, true}};

}  // namespace

bool Decoder::decode_lanes() {
  const Modifiers m = modifiers_of(*statement_);
  const Form* form = find_form(m.name);
  if (form == nullptr) return false;
  const std::string_view operands = form->operands;
  Instruction i = begin(run_modified, m.flags & ~kDouble ? Kind::plain : Kind::lanes);
  i.lanes = form->function;
  i.flags = m.flags;
  i.result = width_of_letter(operands[0]);
  const bool is_signed = statement_->type()[0] == 's';
  for (size_t k = 1; k < operands.size(); ++k)
    i.src[k - 1] = source(operand(k), width_of_letter(operands[k]), is_signed);
  i.dst[0] = result(operand(0), i.result, is_signed);
  emit(i);
  return true;
}

bool Decoder::decode_compare() {
  const Statement& s = *statement_;
  if (s.op() != "setp" && s.op() != "set") return false;
  const std::string_view type = s.type();
  const bool halves = type == "f16x2" || type == "bf16x2";
  const Comparison* comparison = nullptr;
  for (const Comparison& c : kComparisons)
    if (s.words.size() > 1 && s.words[1] == c.word) comparison = &c;
  if (comparison == nullptr) return false;
  const bool floats = is_comparison_of_floats(type);
  const std::string base = "setp." + std::string(comparison->form) + ".";
  std::string name = base + std::string(type);
  if (halves) name = base + std::string(type.substr(0, type.size() - 2));
  if (type.starts_with("b") && !floats) name = base + "u" + std::string(type.substr(1));
  const Form* form = find_form(name);
  if (form == nullptr) return false;

  const Width width = width_of_letter(form->operands[1]);
  const bool is_signed = type[0] == 's';
  u32 a = source(operand(1), width, is_signed), b = source(operand(2), width, is_signed);
  if (comparison->swapped) std::swap(a, b);
  Instruction i = begin(run_setp);
  i.lanes = form->function;
  i.result = Width::predicate;
  i.src[0] = a;
  i.src[1] = b;
  i.src[2] = a;  // flushing copies three
  if (comparison->inverted) i.flags |= kInvert;
  if (s.has("ftz") && type == "f32") i.flags |= kFlush;
  if (s.has("and") || s.has("or") || s.has("xor")) {
    i.flags |= (s.has("and") ? 1u : s.has("or") ? 2u : 3u) << kCombine;
    i.src[3] = source(operand(3), Width::predicate);
  }
  // "ne" of floats is ordered: not equal, and both are numbers.
  const bool ordered_ne = floats && s.words[1] == "ne";
  const Operand& to = operand(0);
  if (s.op() == "set") {
    const u32 truth = scope_.new_slot(Width::predicate);
    i.dst[0] = truth;
    emit(i);
    const std::string_view out = s.words[s.words.size() - 2];
    const bool is_float = out == "f32";
    emit_lanes("selp.b32", result(to, Width::word, true),
               {scope_.constant(is_float ? 0x3f800000 : 0xffffffff, Width::word),
                scope_.constant(0, Width::word), truth},
               true);
    return true;
  }
  const Operand& first = to.type == Operand::vector ? to.items[0] : to;
  i.dst[0] = first.is_sink() ? kNone : result(first, Width::predicate);
  if (halves) {
    emit(i);
    const Form* high = find_form(name + ".high");
    i.lanes = high->function;
    i.dst[0] = to.type == Operand::vector ? result(to.items[1], Width::predicate) : kNone;
    emit(i);
    return true;
  }
  if (to.type == Operand::vector && !to.items[1].is_sink())
    i.dst[1] = result(to.items[1], Width::predicate);
  if (ordered_ne) {
    const u32 numbers = scope_.new_slot(Width::predicate);
    const std::string num = "setp.num." + std::string(type);
    emit_lanes(num, numbers, {a, b}, false);
    if (i.flags >> kCombine & kCombineMask)
      fail("expected setp.ne of floats without a second predicate, got");
    i.flags |= 1u << kCombine;
    i.src[3] = numbers;
  }
  emit(i);
  return true;
}

}  // namespace ptxsim
