// mov, cvt and what they share: packing, special registers, types.
#include <map>

#include "../exec/handlers.h"
#include "../lanes/find.h"
#include "decoder.h"

namespace ptxsim {
namespace {

bool number_of(std::string_view type, Number* number) {
  static const std::map<std::string_view, Number> numbers = {
      {"u8", Number::u8_},      {"s8", Number::s8_},    {"b8", Number::u8_},
      {"u16", Number::u16_},    {"s16", Number::s16_},  {"b16", Number::u16_},
      {"u32", Number::u32_},    {"s32", Number::s32_},  {"b32", Number::u32_},
      {"u64", Number::u64_},    {"s64", Number::s64_},  {"b64", Number::u64_},
      {"f16", Number::f16},     {"bf16", Number::bf16}, {"f16x2", Number::f16},
      {"bf16x2", Number::bf16}, {"tf32", Number::tf32}, {"f32", Number::f32},
      {"f64", Number::f64}};
  const auto found = numbers.find(type);
  if (found == numbers.end()) return false;
  *number = found->second;
  return true;
}

bool is_wide(Number n) { return n == Number::u64_ || n == Number::s64_ || n == Number::f64; }

u32 rounding_of(const Statement& s) {
  for (const std::string_view word : s.words) {
    if (word == "rz" || word == "rzi") return 1;
    if (word == "rm" || word == "rmi") return 2;
    if (word == "rp" || word == "rpi") return 3;
    if (word == "rna") return 4;
  }
  return 0;
}

}  // namespace

bool Decoder::decode_move() {
  if (statement_->op() != "mov") return false;
  const Operand &to = operand(0), &from = operand(1);
  if (to.type == Operand::vector || from.type == Operand::vector) {
    pack(to.type == Operand::vector);
    return true;
  }
  if (from.type == Operand::name && from.text.starts_with("%clock")) {
    special_register(to, from.text);
    return true;
  }
  if (from.type == Operand::name && from.text.starts_with("%globaltimer")) {
    special_register(to, from.text);
    return true;
  }
  if (from.type == Operand::name && from.text[0] == '%' && scope_.find(from.text) == nullptr) {
    static const std::map<std::string_view, u32> fixed = {{"%smid", 0},
                                                          {"%nsmid", 1},
                                                          {"%gridid", 0},
                                                          {"%clusterid.x", 0},
                                                          {"%cluster_ctarank", 0},
                                                          {"%nclusterid.x", 1},
                                                          {"%cluster_nctarank", 1}};
    const auto found = fixed.find(from.text);
    if (found != fixed.end()) {
      bool wide = false;
      const u32 slot = raw_result(to, &wide);
      emit_lanes(wide ? "mov.b64" : "mov.b32", slot,
                 {scope_.constant(found->second, wide ? Width::wide : Width::word)}, true);
      return true;
    }
    if (scope_.special(from.text) == kNone)
      fail("expected a special register that the simulator knows, got");
  }
  if (from.type == Operand::address) {  // mov.u64 %rd, name+4;
    const Width width = type_bits(statement_->type()) == 64 ? Width::wide : Width::word;
    const Symbol& s = symbol(from.text);
    const u32 slot = scope_.constant(s.address + static_cast<u64>(from.offset), width,
                                     s.type == Symbol::dynamic_shared);
    emit_lanes(width == Width::wide ? "mov.b64" : "mov.b32", result(to, width), {slot}, true);
    return true;
  }
  return false;  // a form
}

void Decoder::special_register(const Operand& to, std::string_view name) {
  note_instruction("clock");
  Instruction i = begin(run_clock);
  i.flags = name.starts_with("%globaltimer");
  i.dst[0] = raw_result(to, &i.wide_value);
  emit(i);
}

void Decoder::pack(bool unpacks) {
  note_instruction(unpacks ? "mov.unpack" : "mov.pack");
  const u32 bits = type_bits(statement_->type());
  if (bits != 32 && bits != 64) fail("expected 32 or 64 bits to pack or unpack, got");
  const Operand& parts = operand(unpacks ? 0 : 1);
  Instruction i = begin(unpacks ? run_unpack : run_pack);
  i.wide_value = bits == 64;
  i.flags = static_cast<u32>(parts.items.size());
  if (i.flags != 2 && i.flags != 4) fail("expected 2 or 4 parts, got");
  const Width whole = bits == 64 ? Width::wide : Width::word;
  if (unpacks) {
    i.src[0] = source(operand(1), whole);
    for (u32 k = 0; k < i.flags; ++k)
      i.dst[k] = parts.items[k].is_sink() ? kNone : result(parts.items[k], Width::word);
  } else {
    for (u32 k = 0; k < i.flags; ++k) i.src[k] = source(parts.items[k], Width::word);
    i.dst[0] = result(operand(0), whole);
  }
  emit(i);
}

// A form, if there is one of that name whose registers fit; else any to any.
bool Decoder::decode_convert() {
  const Statement& s = *statement_;
  if (s.op() != "cvt") return false;
  Number to, from;
  if (s.words.size() < 3 || !number_of(s.type(1), &to) || !number_of(s.type(), &from)) return false;
  const bool plain = !s.has("sat") && !s.has("ftz") && !s.has("relu");
  if (plain && operand(0).type == Operand::name && operand(1).type == Operand::name) {
    if (const Form* form = find_form(s.mnemonic)) {
      emit_lanes(s.mnemonic,
                 result(operand(0), form->operands[0] == 'd' ? Width::wide : Width::word,
                        s.type(1)[0] == 's'),
                 {source(operand(1), form->operands[1] == 'd' ? Width::wide : Width::word)}, true);
      return true;
    }
  }
  note_instruction("cvt." + std::string(s.type(1)) + "." + std::string(s.type()));
  Instruction i = begin(run_convert);
  i.flags = static_cast<u32>(to) | static_cast<u32>(from) << 4 | rounding_of(s) << 8 |
            u32{s.has("sat")} << 12 | u32{s.has("relu")} << 13 |
            u32{s.has("rni") || s.has("rzi") || s.has("rmi") || s.has("rpi")} << 15 |
            u32{s.has("ftz")} << 16;
  const bool pair = s.type(1).ends_with("x2");
  if (pair) {
    i.flags |= 1u << 14;
    i.src[1] = source(operand(2), Width::word);
  }
  i.src[0] = source(operand(1), is_wide(from) ? Width::wide : Width::word);
  if (is_wide(to)) {
    i.dst[0] = result(operand(0), Width::wide);
    i.wide_value = true;
  } else {
    i.sign_extended = s.type(1)[0] == 's';
    i.dst[0] = raw_result(operand(0), &i.wide_value);
  }
  emit(i);
  return true;
}

}  // namespace ptxsim
