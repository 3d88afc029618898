// Loads, stores, atomics and copies.
#include <algorithm>
#include <map>

#include "../exec/handlers.h"
#include "../lanes/find.h"
#include "decoder.h"

namespace ptxsim {
namespace {

const std::map<std::string_view, Atomic> kAtomics = {
    {"add", Atomic::add}, {"exch", Atomic::exch}, {"cas", Atomic::cas}, {"min", Atomic::min},
    {"max", Atomic::max}, {"and", Atomic::and_},  {"or", Atomic::or_},  {"xor", Atomic::xor_},
    {"inc", Atomic::inc}, {"dec", Atomic::dec}};

const std::map<std::string_view, Number> kAtomicTypes = {
    {"u32", Number::u32_}, {"b32", Number::u32_},  {"s32", Number::s32_},  {"u64", Number::u64_},
    {"b64", Number::u64_}, {"s64", Number::s64_},  {"f32", Number::f32},   {"f64", Number::f64},
    {"f16", Number::f16},  {"f16x2", Number::f16}, {"bf16", Number::bf16}, {"bf16x2", Number::bf16},
    {"b16", Number::u16_}};

bool is_strong(const Statement& s) {
  return s.has("volatile") || s.has("relaxed") || s.has("acquire") || s.has("release") ||
         s.has("mmio");
}

}  // namespace

Space Decoder::space_of(Space otherwise) const {
  for (const std::string_view word : statement_->words) {
    if (word == "global") return Space::global;
    if (word == "shared" || word == "shared::cta") return Space::shared;
    if (word == "local") return Space::local;
    if (word == "const") return Space::constant;
    if (word == "param" || word.starts_with("param::")) return Space::param;
  }
  return otherwise;
}

void Decoder::address(const Operand& from, Instruction& i) {
  if (from.type != Operand::address) fail("expected an address in brackets");
  i.immediate = from.offset;
  if (from.text.empty()) {
    i.src[0] = scope_.constant(0, Width::wide);
    return;
  }
  const Symbol& s = symbol(from.text);
  if (s.type == Symbol::reg) {
    i.src[0] = s.slot;
    i.wide_address = s.width == Width::wide;
    return;
  }
  i.wide_address = s.type == Symbol::global;
  i.src[0] = scope_.constant(s.address, i.wide_address ? Width::wide : Width::word,
                             s.type == Symbol::dynamic_shared);
  if (s.type == Symbol::local) i.space = Space::local;  // also the parameters of functions
  if (s.type == Symbol::param) i.space = Space::param;
}

void Decoder::set_access(Instruction& i, std::string_view type) {
  const u32 bits = type_bits(type);
  if (bits < 8 || bits > 64) fail("expected a type of 8 to 64 bits, got " + std::string(type));
  i.bytes = static_cast<u8>(bits / 8);
  i.sign_extended = type[0] == 's';
  if (i.space == Space::global || i.space == Space::generic)
    kernel_.global_granule = std::min<u32>(kernel_.global_granule, i.bytes);
  if (i.space == Space::shared || i.space == Space::generic)
    kernel_.shared_granule = std::min<u32>(kernel_.shared_granule, i.bytes);
}

bool Decoder::decode_memory() {
  const std::string_view op = statement_->op();
  if (op == "ld" || op == "ldu") {
    load_or_store(true);
  } else if (op == "st") {
    load_or_store(false);
  } else if (op == "atom" || op == "red") {
    atomic();
  } else if (op == "cp" && statement_->has("async") && !statement_->has("bulk")) {
    copy_async();
  } else if (op == "ldmatrix") {
    load_matrix();
  } else {
    return false;
  }
  return true;
}

void Decoder::load_or_store(bool is_load) {
  const Operand& memory = operand(is_load ? 1 : 0);
  const Operand& value = operand(is_load ? 0 : 1);
  Instruction i = begin(is_load ? run_load : run_store);
  i.space = space_of(Space::generic);
  address(memory, i);
  i.ordering = is_strong(*statement_) && i.space != Space::shared;
  set_access(i, statement_->type());
  if (is_load && i.space == Space::param) i.run = run_load_param;
  if (!is_load && i.space == Space::param) fail("expected no store to a parameter, got");
  note_instruction(std::string(is_load ? "ld." : "st.") + std::string(statement_->type()));
  const std::vector<Operand> one = {value};
  const std::vector<Operand>& values = value.type == Operand::vector ? value.items : one;
  if (values.size() > 4) fail("expected at most 4 elements, got");
  i.count = static_cast<u8>(values.size());
  // All registers of one access have one width.
  for (const Operand& v : values) {
    const Symbol* s = v.type == Operand::name ? scope_.find(v.text) : nullptr;
    if (s != nullptr && s->type == Symbol::reg) i.wide_value = s->width == Width::wide;
    if (s == nullptr && !v.is_sink()) i.wide_value = i.bytes == 8;
  }
  const Width width = i.wide_value ? Width::wide : Width::word;
  if (i.bytes == 8 && !i.wide_value) fail("expected a register of 64 bits");
  for (size_t k = 0; k < values.size(); ++k) {
    if (!is_load)
      i.src[1 + k] = source(values[k], width);
    else if (!values[k].is_sink())
      i.dst[k] = result(values[k], width);
  }
  emit(i);
}

void Decoder::atomic() {
  const Statement& s = *statement_;
  const bool returns = s.op() == "atom";
  const auto type = kAtomicTypes.find(s.type());
  if (type == kAtomicTypes.end()) fail("expected another type");
  Atomic op = Atomic::add;
  std::string_view word;
  for (const std::string_view w : s.words)
    if (kAtomics.contains(w)) op = kAtomics.at(w), word = w;
  if (word.empty()) fail("expected an operation");
  note_instruction("atom." + std::string(word) + "." + std::string(s.type()));
  Instruction i = begin(run_atomic);
  i.space = space_of(Space::generic);
  address(operand(returns ? 1 : 0), i);
  set_access(i, s.type());
  const bool pair = s.type().ends_with("x2");
  i.flags = static_cast<u32>(op) | static_cast<u32>(type->second) << 4 | u32{pair} << 8;
  i.wide_value = i.bytes == 8;
  const Width width = i.wide_value ? Width::wide : Width::word;
  const bool is_signed = s.type()[0] == 's';
  i.src[1] = source(operand(returns ? 2 : 1), width, is_signed);
  if (op == Atomic::cas) i.src[2] = source(operand(3), width);
  if (returns && !operand(0).is_sink()) i.dst[0] = result(operand(0), width);
  const bool commutes = type->second < Number::f16 && op != Atomic::exch && op != Atomic::cas &&
                        op != Atomic::inc && op != Atomic::dec;
  if (i.space != Space::shared && (returns || !commutes)) kernel_.ordered_blocks = true;
  emit(i);
}

void Decoder::copy_async() {
  const Statement& s = *statement_;
  note_instruction("cp.async");
  if (s.has("commit_group") || s.has("wait_group") || s.has("wait_all") || s.has("mbarrier")) {
    if (s.has("mbarrier")) fail("expected cp.async without mbarrier, got");
    emit(begin(run_nothing));
    return;
  }
  Instruction i = begin(run_copy_async);
  address(operand(0), i);
  i.flags = i.wide_address;
  Instruction from = begin();
  address(operand(1), from);
  i.src[1] = from.src[0];
  if (!from.wide_address) fail("expected a 64-bit address to read from, got");
  i.src[3] = static_cast<u32>(from.immediate);
  i.bytes = static_cast<u8>(operand(2).value);
  i.space = Space::global;
  i.src[2] = kNone;
  if (statement_->operands.size() > 3) i.src[2] = source(operand(3), Width::word);
  emit(i);
}

void Decoder::load_matrix() {
  note_instruction("ldmatrix");
  Instruction i = begin(run_load_matrix, Kind::converge);
  i.space = Space::shared;
  address(operand(1), i);
  const Operand& to = operand(0);
  i.count = 1;
  if (to.type == Operand::vector) i.count = static_cast<u8>(to.items.size());
  for (u32 k = 0; k < i.count; ++k)
    i.dst[k] = result(to.type == Operand::vector ? to.items[k] : to, Width::word);
  i.flags = statement_->has("trans");
  i.src[kMembers] = kNone;
  kernel_.shared_granule = std::min(kernel_.shared_granule, 2u);
  emit(i);
}

}  // namespace ptxsim
