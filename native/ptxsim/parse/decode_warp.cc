// Instructions of a whole warp, and barriers.
#include <map>

#include "../exec/handlers.h"
#include "../lanes/find.h"
#include "decoder.h"

namespace ptxsim {

bool Decoder::decode_warp() {
  const Statement& s = *statement_;
  const std::string_view op = s.op();
  if (op == "shfl") {
    shuffle();
  } else if (op == "vote") {
    vote();
  } else if (op == "match") {
    match();
  } else if (op == "redux") {
    reduce();
  } else if (op == "mma") {
    mma();
  } else if (op == "activemask") {
    note_instruction("activemask");
    Instruction i = begin(run_active_mask);
    i.dst[0] = result(operand(0), Width::word);
    emit(i);
  } else if ((op == "bar" || op == "barrier") && s.has("warp")) {
    note_instruction("bar.warp.sync");
    Instruction i = begin(run_sync_warp, Kind::converge);
    i.src[kMembers] = source(operand(0), Width::word);
    emit(i);
  } else {
    return false;
  }
  return true;
}

void Decoder::shuffle() {
  static const std::map<std::string_view, Shuffle> modes = {
      {"up", Shuffle::up}, {"down", Shuffle::down}, {"bfly", Shuffle::bfly}, {"idx", Shuffle::idx}};
  const Statement& s = *statement_;
  if (!s.has("sync")) fail("expected shfl.sync, got");
  for (const auto& [word, mode] : modes) {
    if (!s.has(word)) continue;
    note_instruction("shfl.sync." + std::string(word));
    Instruction i = begin(run_shuffle, Kind::converge);
    i.flags = static_cast<u32>(mode);
    i.src[0] = source(operand(1), Width::word);
    i.src[1] = source(operand(2), Width::word);
    i.src[2] = source(operand(3), Width::word);
    i.src[kMembers] = source(operand(4), Width::word);
    const Operand& to = operand(0);
    const bool two = to.type == Operand::vector;
    i.dst[0] = result(two ? to.items[0] : to, Width::word);
    if (two) i.dst[1] = result(to.items[1], Width::predicate);
    emit(i);
    return;
  }
  fail("expected up, down, bfly or idx, got");
}

void Decoder::vote() {
  const Statement& s = *statement_;
  const Vote vote = s.has("ballot") ? Vote::ballot
                    : s.has("any")  ? Vote::any
                    : s.has("all")  ? Vote::all
                                    : Vote::uni;
  note_instruction("vote.sync." + std::string(s.words[2]));
  Instruction i = begin(run_vote, Kind::converge);
  i.flags = static_cast<u32>(vote);
  i.src[0] = source(operand(1), Width::predicate);
  i.src[kMembers] = source(operand(2), Width::word);
  i.dst[0] = result(operand(0), vote == Vote::ballot ? Width::word : Width::predicate);
  emit(i);
}

void Decoder::match() {
  const Statement& s = *statement_;
  note_instruction(s.has("all") ? "match.all.sync" : "match.any.sync");
  Instruction i = begin(run_match, Kind::converge);
  i.flags = s.has("all");
  i.wide_value = type_bits(s.type()) == 64;
  const Operand& to = operand(0);
  const bool two = to.type == Operand::vector;
  i.src[0] = source(operand(1), i.wide_value ? Width::wide : Width::word);
  i.src[kMembers] = source(operand(2), Width::word);
  i.dst[0] = result(two ? to.items[0] : to, Width::word);
  if (two && !to.items[1].is_sink()) i.dst[1] = result(to.items[1], Width::predicate);
  emit(i);
}

void Decoder::reduce() {
  static const std::map<std::string_view, Atomic> ops = {
      {"add", Atomic::add},  {"min", Atomic::min}, {"max", Atomic::max},
      {"and", Atomic::and_}, {"or", Atomic::or_},  {"xor", Atomic::xor_}};
  const Statement& s = *statement_;
  for (const auto& [word, op] : ops) {
    if (!s.has(word)) continue;
    note_instruction("redux.sync." + std::string(word));
    const Number type = s.type() == "s32"   ? Number::s32_
                        : s.type() == "f32" ? Number::f32
                                            : Number::u32_;
    Instruction i = begin(run_reduce, Kind::converge);
    i.flags = static_cast<u32>(op) | static_cast<u32>(type) << 4;
    i.src[0] = source(operand(1), Width::word);
    i.src[kMembers] = source(operand(2), Width::word);
    i.dst[0] = result(operand(0), Width::word);
    emit(i);
    return;
  }
  fail("expected add, min, max, and, or or xor, got");
}

void Decoder::mma() {
  static const std::map<std::string_view, Mma> types = {{"f16", Mma::f16},
                                                        {"bf16", Mma::bf16},
                                                        {"tf32", Mma::tf32},
                                                        {"s8", Mma::s8},
                                                        {"u8", Mma::u8}};
  const Statement& s = *statement_;
  const std::string_view d_type = s.type(3), a_type = s.type(2);
  u32 k = 0;
  for (const std::string_view word : s.words)
    if (word.starts_with("m16n8k")) k = static_cast<u32>(std::stoul(std::string(word.substr(6))));
  const auto type = types.find(a_type);
  if (k == 0 || type == types.end() || a_type != s.type(1) || d_type != s.type() || !s.has("row"))
    fail("expected mma.sync of m16n8 with equal types, got");
  note_instruction("mma.sync.m16n8k" + std::to_string(k) + "." + std::string(d_type) + "." +
                   std::string(a_type));
  Instruction i = begin(run_mma, Kind::converge);
  i.flags = k | static_cast<u32>(type->second) << 8 | u32{d_type == "f16"} << 12;
  i.src[kMembers] = kNone;
  u32 next = 0;
  for (size_t o = 1; o < 4; ++o) {
    const Operand& registers = operand(o);
    for (const Operand& item : registers.items) {
      if (next == kMembers) fail("expected at most 10 sources, got");
      i.src[next++] = source(item, Width::word);
    }
    if (registers.type != Operand::vector) i.src[next++] = source(registers, Width::word);
  }
  const Operand& to = operand(0);
  for (u32 r = 0; r < to.items.size() && r < 4; ++r) i.dst[r] = result(to.items[r], Width::word);
  emit(i);
}

bool Decoder::decode_barrier() {
  const Statement& s = *statement_;
  if (s.op() != "bar" && s.op() != "barrier") return false;
  if (s.has("cluster")) fail("expected no cluster, got");
  Instruction i = begin(nullptr, Kind::barrier);
  i.src[1] = kNone;
  size_t at = 0;
  if (s.has("red")) {
    note_instruction(s.has("popc") ? "bar.red.popc" : s.has("and") ? "bar.red.and" : "bar.red.or");
    i.flags = s.has("popc") ? kReducePopc : s.has("and") ? kReduceAnd : kReduceOr;
    i.dst[0] = result(operand(0), s.has("popc") ? Width::word : Width::predicate);
    at = 1;
  } else {
    note_instruction(s.has("arrive") ? "bar.arrive" : "bar.sync");
    if (s.has("arrive")) i.flags = kArrive;
  }
  i.src[0] = source(operand(at), Width::word);
  const size_t rest = s.operands.size() - at - 1 - (s.has("red") ? 1 : 0);
  if (rest == 1) i.src[1] = source(operand(at + 1), Width::word);
  if (s.has("red")) i.src[2] = source(operand(at + 1 + rest), Width::predicate);
  emit(i);
  return true;
}

}  // namespace ptxsim
