#include "program.h"

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "builtin.h"
#include "common/elementwise.h"
#include "common/kernels.h"
#include "common/reduce.h"

namespace needle {
namespace {

// A name of any bytes, as a message shows it.
std::string printable(std::string name) {
  for (char& c : name) {
    if (c < ' ' || c > '~') c = '?';
  }
  return name;
}

struct Function {
  const char* name;
  Opcode opcode;
  uint8_t function;
  int n_args;
  ElementwiseKind kind = ElementwiseKind::same;
};

constexpr Function kFunctions[] = {
#define UNARY(name, kind, ...) \
  {#name, Opcode::unary, static_cast<uint8_t>(UnaryOp::name), 1, ElementwiseKind::kind},
#define BINARY(name, kind, ...) \
  {#name, Opcode::binary, static_cast<uint8_t>(BinaryOp::name), 2, ElementwiseKind::kind},
#include "common/elementwise.def"
#define REDUCTION(name, ...) \
  {"row_" #name, Opcode::row_reduce, static_cast<uint8_t>(ReduceOp::name), 1},
#include "common/reduce.def"
    {"load", Opcode::load, 0, 0},
    {"constant", Opcode::constant, 0, 0},
    {"where", Opcode::select, 0, 3},
    {"cast", Opcode::cast, 0, 1},
    {"gather", Opcode::gather, 0, 2},
    {"add_at", Opcode::add_at, 0, 3},
    {"column_sum", Opcode::column_sum, 0, 1},
    {"row_index", Opcode::row_index, 0, 0},
    {"row_size", Opcode::row_size, 0, 0},
    {"random", Opcode::random, 0, 2},
    {"store", Opcode::store, 0, 1},
};

const Function* find_function(const std::string& name) {
  for (const Function& f : kFunctions) {
    if (name == f.name) return &f;
  }
  return nullptr;
}

[[noreturn]] void fail(const std::string& problem) {
  throw std::invalid_argument("[program] " + problem);
}

// The bytes of a program, read one after the other.
class Reader {
 public:
  Reader(const char* code, int64_t size) : at_(code), end_(code + size) {}

  template <class T>
  T take() {
    T value;
    std::memcpy(&value, bytes(sizeof(T)), sizeof(T));
    return value;
  }

  const char* bytes(int64_t count) {
    if (end_ - at_ < count) fail("the code ends in the middle");
    const char* const from = at_;
    at_ += count;
    return from;
  }

  DType dtype() {
    const auto position = take<uint8_t>();
    if (position >= kNumDTypes) fail("unknown dtype " + std::to_string(position));
    return static_cast<DType>(position);
  }

  bool is_done() const { return at_ == end_; }

 private:
  const char* at_;
  const char* const end_;
};

class Decoder {
 public:
  Decoder(const char* code, int64_t size, TileProgram& program) : from_(code, size), p_(program) {}

  void run() {
    if (std::memcmp(from_.bytes(4), "tile", 4) != 0) fail("this is not the code of a program");
    p_.n_inputs = from_.take<uint8_t>();
    p_.n_outputs = from_.take<uint8_t>();
    const int n_names = from_.take<uint8_t>();
    p_.count = from_.take<uint16_t>();
    if (p_.n_inputs + p_.n_outputs > kMaxProgramOperands) fail("too many operands");
    if (p_.count > kMaxInstructions) fail("too many instructions");
    for (int k = 0; k < p_.n_inputs; ++k) {
      p_.input_dtype[k] = from_.dtype();
      const auto kind = from_.take<uint8_t>();
      if (kind > static_cast<uint8_t>(ValueKind::full)) fail("an input of an unknown kind");
      p_.input_kind[k] = static_cast<ValueKind>(kind);
    }
    for (int k = 0; k < p_.n_outputs; ++k) p_.output_dtype[k] = from_.dtype();
    std::vector<const Function*> functions;
    for (int i = 0; i < n_names; ++i) {
      const int length = from_.take<uint8_t>();
      const std::string name(from_.bytes(length), static_cast<size_t>(length));
      functions.push_back(find_function(name));
      if (functions.back() == nullptr) fail("there is no function '" + printable(name) + "'");
    }
    std::vector<bool> is_stored(static_cast<size_t>(p_.n_outputs));
    for (number_ = 0; number_ < p_.count; ++number_) {
      const auto position = from_.take<uint8_t>();
      if (position >= n_names) refuse("an unknown function");
      read_instruction(*functions[position]);
      const Instruction& i = p_.code[number_];
      if (i.opcode == Opcode::store) is_stored[i.operand] = true;
      if (number_ > 0) check_order(p_.code[number_ - 1], i);
    }
    if (!from_.is_done()) fail("there are bytes after the last instruction");
    for (const bool stored : is_stored) {
      if (!stored) fail("an output is never stored");
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    fail("instruction " + std::to_string(number_) + ": " + problem);
  }

  // Inputs may be outputs too, so all reading comes first and all writing last.
  void check_order(const Instruction& before, const Instruction& i) const {
    const bool loads_late = i.opcode == Opcode::load && before.opcode != Opcode::load;
    const bool works_late = before.opcode == Opcode::store && i.opcode != Opcode::store;
    if (loads_late || works_late) refuse("loads must come first and stores last");
  }

  void read_instruction(const Function& f) {
    Instruction& i = p_.code[number_];
    i = {};
    i.opcode = f.opcode;
    i.function = f.function;
    i.dtype = from_.dtype();
    const auto phase = from_.take<uint8_t>();
    if (phase > kMaxPhases) fail("too many row reductions that depend on each other");
    i.phase = static_cast<int8_t>(phase);
    i.n_args = static_cast<uint8_t>(f.n_args);
    for (int k = 0; k < 3; ++k) {
      const auto arg = from_.take<uint16_t>();
      if (k >= f.n_args) continue;
      if (arg >= number_ || p_.code[arg].opcode == Opcode::store) refuse("an unknown argument");
      if (p_.code[arg].available() > phase) refuse("its phase is before its arguments are known");
      i.args[k] = static_cast<int16_t>(arg);
    }
    i.payload = from_.take<int64_t>();
    i.type = compute_type(i.dtype);
    i.kind = widest_kind(i);
    check(i, f);
  }

  const Instruction& arg(const Instruction& i, int k) const { return p_.code[i.args[k]]; }

  static ValueKind widest_kind_of(ValueKind a, ValueKind b) { return a > b ? a : b; }

  ValueKind widest_kind(const Instruction& i) const {
    ValueKind kind = ValueKind::scalar;
    for (int k = 0; k < i.n_args; ++k) kind = widest_kind_of(kind, arg(i, k).kind);
    return kind;
  }

  void require_type(const Instruction& value, ComputeType type) const {
    if (value.type != type) refuse("its arguments differ in type");
  }

  void check(Instruction& i, const Function& f) {
    if (i.opcode != Opcode::store && i.kind == ValueKind::column) {
      refuse("a column value can only be stored");
    }
    switch (i.opcode) {
      case Opcode::load: return check_load(i);
      case Opcode::store: return check_store(i);
      case Opcode::constant:
      case Opcode::row_size: break;
      case Opcode::row_index: i.kind = ValueKind::full; break;
      case Opcode::cast:
      case Opcode::pair: break;  // pairs are made later
      case Opcode::unary:
      case Opcode::binary: return check_function(i, f);
      case Opcode::select:
        require_type(arg(i, 0), ComputeType::b8);
        require_type(arg(i, 1), i.type);
        require_type(arg(i, 2), i.type);
        break;
      case Opcode::random: return check_random(i);
      case Opcode::gather: check_index(arg(i, 1)); return check_reduction(i, ValueKind::row);
      case Opcode::add_at:
        check_index(arg(i, 1));
        require_type(arg(i, 0), i.type);
        require_type(arg(i, 2), i.type);
        if (arg(i, 0).kind != ValueKind::full) refuse("expected a full value");
        if (arg(i, 2).kind > ValueKind::row) refuse("what it adds must be a row value");
        if (i.type == ComputeType::b8) refuse("sums of bool are not defined");
        break;
      case Opcode::row_reduce: return check_reduction(i, ValueKind::row);
      case Opcode::column_sum: return check_reduction(i, ValueKind::column);
    }
    if (i.opcode == Opcode::row_index && i.type == ComputeType::b8) refuse("positions are no bool");
  }

  void check_index(const Instruction& index) const {
    const bool is_integer = index.type == ComputeType::i32 || index.type == ComputeType::i64;
    if (!is_integer || index.kind > ValueKind::row)
      refuse("its index must be an integer row value");
  }

  // Its arguments are the seed and the place in the stream, of which all 64 bits count.
  void check_random(Instruction& i) {
    for (int k = 0; k < 2; ++k) {
      const Instruction& word = arg(i, k);
      if (word.type != ComputeType::i64 || word.kind != ValueKind::scalar) {
        refuse("its seed and offset must be int64 scalars");
      }
    }
    if (i.dtype != DType::f32) refuse("random numbers are float32");
    i.kind = ValueKind::full;
    p_.is_random = true;
  }

  void check_load(Instruction& i) {
    if (i.payload < 0 || i.payload >= p_.n_inputs) refuse("an unknown input");
    i.operand = static_cast<uint8_t>(i.payload);
    i.kind = p_.input_kind[i.operand];
    if (i.dtype != p_.input_dtype[i.operand]) refuse("not the dtype of its input");
  }

  void check_store(Instruction& i) {
    if (i.payload < 0 || i.payload >= p_.n_outputs) refuse("an unknown output");
    i.operand = static_cast<uint8_t>(i.payload);
    if (i.dtype != p_.output_dtype[i.operand]) refuse("not the dtype of its output");
    i.type = arg(i, 0).type;
    p_.output_kind[i.operand] = i.kind;
  }

  void check_function(Instruction& i, const Function& f) {
    const ComputeType type = arg(i, 0).type;
    for (int k = 1; k < i.n_args; ++k) require_type(arg(i, k), type);
    const ComputeType result = f.kind == ElementwiseKind::predicate ? ComputeType::b8 : type;
    require_type(i, result);
    const DType dtype = arg(i, 0).dtype;
    const bool exists = i.opcode == Opcode::unary
                            ? kernels().has_unary(static_cast<UnaryOp>(i.function), dtype)
                            : kernels().has_binary(static_cast<BinaryOp>(i.function), dtype);
    if (!exists) refuse(std::string(f.name) + " is not defined for the type of its arguments");
  }

  void check_reduction(Instruction& i, ValueKind result) {
    require_type(arg(i, 0), i.type);
    if (arg(i, 0).kind != ValueKind::full) refuse("expected a full value");
    bool is_extreme = i.opcode == Opcode::gather;
    if (i.opcode == Opcode::row_reduce) {
      const ReduceKind kind = kind_of(static_cast<ReduceOp>(i.function));
      if (kind == ReduceKind::truth) refuse("rows have no reduction to bool");
      is_extreme = kind == ReduceKind::extreme;
    }
    if (i.type == ComputeType::b8 && !is_extreme) refuse("sums of bool are not defined");
    i.kind = result;
  }

  Reader from_;
  TileProgram& p_;
  int number_ = 0;
};

bool is_reduction(const Instruction& i) {
  return i.is_row_reduction() || i.opcode == Opcode::column_sum;
}
// Its value is at hand in every phase.
bool is_source(const Instruction& i) {
  return i.opcode == Opcode::load || i.opcode == Opcode::row_index;
}
// Computed while a row is passed over, chunk by chunk.
bool is_full_step(const Instruction& i) { return i.kind == ValueKind::full || is_reduction(i); }

void push(Pass& pass, int number) { pass.steps[pass.count++] = static_cast<int16_t>(number); }

// Finds what each phase computes, and who keeps what where.
class Scheduler {
 public:
  explicit Scheduler(TileProgram& program) : p_(program) {}

  void run() {
    p_.widest = 1;
    p_.is_elementwise = true;
    p_.n_phases = 1;
    find_alive();
    for (int n = 0; n < p_.count; ++n) {
      if (is_alive_[n]) count(p_.code[n]);
    }
    if (p_.n_phases > kMaxPhases) fail("too many row reductions that depend on each other");
    const int last = p_.n_phases - 1;
    for (int n = 0; n < p_.count; ++n) {
      Instruction& i = p_.code[n];
      if (i.opcode == Opcode::store && i.kind == ValueKind::full) {
        i.phase = static_cast<int8_t>(last);
      }
    }
    find_uses();
    for (int phase = 0; phase <= last; ++phase) {
      collect(phase, true, p_.phases[phase].fresh);
      collect(phase, false, p_.phases[phase].again);
    }
    collect_others();
    assign_slots();
  }

 private:
  // What a store needs: instructions that pairs have taken in are not computed.
  void find_alive() {
    for (int n = p_.count - 1; n >= 0; --n) {
      const Instruction& i = p_.code[n];
      is_alive_[n] |= i.opcode == Opcode::store;
      for (int k = 0; k < i.n_args && is_alive_[n]; ++k) is_alive_[i.args[k]] = true;
    }
  }

  void count(const Instruction& i) {
    // Seeds and offsets have 8 bytes, but only one each.
    const bool is_in_tiles = !p_.is_random || i.kind != ValueKind::scalar;
    const int size = is_in_tiles ? compute_size(i.type) : 1;
    p_.widest = size > p_.widest ? size : p_.widest;
    if (is_full_step(i) && i.phase >= p_.n_phases) p_.n_phases = i.phase + 1;
    const bool is_positional = i.opcode == Opcode::row_index || i.opcode == Opcode::add_at;
    const bool is_plain = (i.kind == ValueKind::full && !is_positional) ||
                          (i.kind == ValueKind::scalar && i.opcode != Opcode::row_size);
    if (!is_plain) p_.is_elementwise = false;
  }

  void find_uses() {
    p_.n_kept = 0;
    for (int n = 0; n < p_.count; ++n) {
      last_use_[n] = n;
      p_.code[n].direct = p_.code[n].slot = p_.code[n].keep = p_.code[n].spread = -1;
    }
    for (int n = 0; n < p_.count; ++n) {
      const Instruction& i = p_.code[n];
      for (int k = 0; k < i.n_args && is_alive_[n]; ++k) {
        Instruction& used = p_.code[i.args[k]];
        last_use_[i.args[k]] = n;
        if (used.opcode == Opcode::load) p_.input_last_use[used.operand] = n;
        const bool takes_tiles = i.opcode != Opcode::add_at && i.opcode != Opcode::random;
        const bool is_spread =
            i.kind == ValueKind::full && used.kind < ValueKind::full && takes_tiles;
        if (is_spread && used.spread < 0) used.spread = static_cast<int16_t>(p_.n_spread++);
        if (used.kind != ValueKind::full || is_source(used)) continue;
        if (is_full_step(i) && i.phase > used.phase) used.is_kept = true;
        if (i.opcode == Opcode::store && used.direct < 0) used.direct = static_cast<int16_t>(n);
      }
    }
    for (int n = 0; n < p_.count; ++n) {
      Instruction& i = p_.code[n];
      if (!i.is_kept) continue;
      i.keep = static_cast<int16_t>(p_.n_kept++);
      i.direct = -1;
    }
  }

  // The steps of a phase in order: what its reductions, stores and kept values need.
  void collect(int phase, bool fresh, Pass& pass) {
    bool needed[kMaxInstructions] = {};
    for (int n = p_.count - 1; n >= 0; --n) {
      const Instruction& i = p_.code[n];
      if (!is_full_step(i) || !is_alive_[n]) continue;
      const bool is_root = is_reduction(i) || i.opcode == Opcode::store || (fresh && i.is_kept);
      if (is_root && i.phase == phase) needed[n] = true;
      if (!needed[n]) continue;
      const bool is_at_hand = fresh && i.is_kept && i.phase < phase;
      for (int k = 0; k < i.n_args && !is_at_hand; ++k) {
        if (p_.code[i.args[k]].kind == ValueKind::full) needed[i.args[k]] = true;
      }
    }
    for (int n = 0; n < p_.count; ++n) {
      if (needed[n]) push(pass, n);
    }
  }

  void collect_others() {
    for (int n = 0; n < p_.count; ++n) {
      const Instruction& i = p_.code[n];
      if (!is_alive_[n]) continue;
      if (i.kind == ValueKind::scalar) push(p_.scalars, n);
      if (i.is_row_reduction()) push(p_.phases[i.phase].reduced, n);
      if (i.opcode == Opcode::column_sum) push(p_.columns, n);
      if (i.kind != ValueKind::row || i.is_row_reduction()) continue;
      const bool is_last = i.opcode == Opcode::store || i.phase >= p_.n_phases;
      push(is_last ? p_.last_rows : p_.phases[i.phase].rows, n);
    }
  }

  // Tiles for full values, each free again after the last use. A result may take the tile of an
  // argument of its own size.
  void assign_slots() {
    std::vector<int> owner;  // of each slot: the last use of what is in it
    p_.n_slots = 0;
    for (int n = 0; n < p_.count; ++n) {
      Instruction& i = p_.code[n];
      if (i.kind != ValueKind::full || i.opcode == Opcode::store || !is_alive_[n]) continue;
      const bool reuses = i.opcode == Opcode::unary || i.opcode == Opcode::binary ||
                          i.opcode == Opcode::pair || i.opcode == Opcode::add_at;
      int slot = 0;
      for (; slot < static_cast<int>(owner.size()); ++slot) {
        const int free_from = owner[static_cast<size_t>(slot)];
        if (free_from < n || (free_from == n && reuses && fits(i, slot))) break;
      }
      if (slot == static_cast<int>(owner.size())) owner.push_back(0);
      owner[static_cast<size_t>(slot)] = last_use_[n];
      i.slot = static_cast<int16_t>(slot);
    }
    p_.n_slots = static_cast<int>(owner.size());
  }

  bool fits(const Instruction& i, int slot) const {
    for (int k = 0; k < i.n_args; ++k) {
      const Instruction& used = p_.code[i.args[k]];
      if (used.slot == slot && compute_size(used.type) == compute_size(i.type)) return true;
    }
    return false;
  }

  TileProgram& p_;
  int last_use_[kMaxInstructions];
  bool is_alive_[kMaxInstructions] = {};
};

}  // namespace

void decode_program(const char* code, int64_t size, TileProgram& program) {
  program = {};
  Decoder(code, size, program).run();
  program.builtin = find_builtin(program);
  join_operations(program);
  Scheduler(program).run();
}

}  // namespace needle
