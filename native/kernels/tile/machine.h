// The machine that runs a tile program: values in tiles, one chunk of the operands at a time.
//
// Full values are tiles of rows x cols elements, where the rows are those of the program, side by
// side. Row values are vectors with one element per row; full instructions take them, and scalars,
// as runs of copies, row by row. Short rows are taken together, and row values spread over a tile.
// Where rows lie across memory, tiles are upright, cols x rows: a line has one element of every
// row, and row values are a line that full instructions take again and again.
#pragma once

#include <cstddef>

#include "kernels/elementwise/blocks.h"
#include "kernels/entries.h"
#include "kernels/loops.h"
#include "kernels/stream.h"
#include "tile.h"
#include "tile/program.h"

namespace needle::NEEDLE_ISA {
namespace {

constexpr int64_t kShortRow = 2 * kRun;  // a call for each row would cost more than spreading

inline int64_t tile_capacity(const TileProgram& program) {
  return kTileBytes / (program.widest < 4 ? 4 : program.widest);
}

// The random numbers of a program are a last operand: as if word w of their stream lay w bytes from
// here. Nothing does, but blocks of it are found like those of memory.
inline char* stream_origin() { return reinterpret_cast<char*>(kTileBytes); }

// A chunk of the operands, outputs first: where it begins, and its place in the row.
struct Chunk {
  char* at[kMaxOperands];
  Steps steps[kMaxOperands];
  Block block;
  int64_t start;
};

// Asks for the elements that come next, while those at hand are computed: the hardware's own
// prefetching ends at each page, which is often where a row or a block ends.
inline void prefetch_operand(const Chunk& next, int k, int64_t item) {
  const Steps steps = next.steps[k];
  if (steps.col != 1 || (steps.row == 0 && next.block.rows > 1)) return;  // it is there
  for (int64_t row = 0; row < next.block.rows; ++row) {
    prefetch(next.at[k] + row * steps.row * item, next.block.cols * item);
  }
}

// Calls body(T) with a compute type.
template <class F>
void with_type(ComputeType type, const F& body) {
  switch (type) {
    case ComputeType::f32: return body(float{});
    case ComputeType::f64: return body(double{});
    case ComputeType::i32: return body(int32_t{});
    case ComputeType::i64: return body(int64_t{});
    case ComputeType::b8: return body(uint8_t{});
  }
}

// Row r of an upright tile takes its element from line index[r], or gets one there: lines are
// counted from `first`. By selection, as no core could predict the branches.
template <class T, class I>
void pick_from_lines(T* to, const T* lines, const I* index, int64_t first, Block block) {
  for (int64_t line = 0; line < block.rows; ++line, lines += block.cols) {
    const int64_t own = first + line;
#pragma GCC ivdep
    for (int64_t r = 0; r < block.cols; ++r) to[r] = index[r] == own ? lines[r] : to[r];
  }
}

template <class T, class I>
void add_to_lines(T* lines, const T* added, const I* index, int64_t first, Block block) {
  for (int64_t line = 0; line < block.rows; ++line, lines += block.cols) {
    const int64_t own = first + line;
#pragma GCC ivdep
    for (int64_t r = 0; r < block.cols; ++r) {
      lines[r] = index[r] == own ? static_cast<T>(lines[r] + added[r]) : lines[r];
    }
  }
}

// What the machine knows of an instruction's value: one line of the cache.
struct alignas(64) Held {
  char* at;        // its elements, for full values those of this chunk
  char* spread;    // those of a row or scalar value, each several times:
  int64_t epoch;   // for these rows,
  int64_t length;  // so many times
  char* total;     // of a row reduction that is under way
  OpFn operation;  // of an elementwise instruction, else nullptr
  int32_t item;    // bytes of an element
  ValueKind kind;
};

class Machine {
 public:
  // For tiles of up to `rows` rows; `kept` elements of a tile's rows are kept between phases (0:
  // computed again). `row_length` is the program's own.
  Machine(const TileProgram& program, int64_t rows, int64_t kept, int64_t row_length,
          bool is_upright = false)
      : p_(program),
        is_upright_(is_upright),
        max_rows_(rows),
        kept_bytes_(kept * 8),
        row_length_(row_length),
        memory_(memory_size(program, rows, kept * 8)) {
    free_ = memory_.as<char>();
    for (int s = 0; s < p_.n_slots; ++s) slots_[s] = allocate(kTileBytes);
    for (int k = 0; k < p_.n_inputs; ++k) fixed_[k] = nullptr;
    for (int k = 0; k < p_.n_inputs; ++k) is_copied_[k] = false;
    for (int k = 0; k < p_.n_outputs; ++k) is_streamed_[k] = false;
    temporary_ = allocate(kTileBytes);
    for (int n = 0; n < p_.count; ++n) {
      const Instruction& i = p_.code[n];
      Held& value = values_[n];
      const bool is_reduced = i.opcode == Opcode::row_reduce || i.opcode == Opcode::gather;
      if (i.kind < ValueKind::full) value.at = allocate(8 * max_rows_);
      if (is_reduced) value.total = allocate(8 * max_rows_);
      if (i.spread >= 0) value.spread = allocate(kTileBytes);
      if (i.keep >= 0 && kept > 0) kept_[i.keep] = allocate(kept_bytes_);
      value.epoch = -1;
      value.operation = operation(i);
      value.item = compute_size(i.type);
      value.kind = i.kind;
    }
  }

  // Computes the scalars; `inputs` are the input operands' first elements.
  void start(char* const* inputs) {
    for (int s = 0; s < p_.scalars.count; ++s) {
      const int n = p_.scalars.steps[s];
      const Instruction& i = p_.code[n];
      if (i.opcode == Opcode::store) continue;
      if (i.opcode == Opcode::load) {
        kLoad[static_cast<int>(i.dtype)](values_[n].at, inputs[i.operand], {0, 0}, {1, 1});
      } else {
        compute_narrow(i, n, 1);
      }
      const int log2_item = log2_size(compute_size(i.type));
      if (i.spread >= 0) kLoadBits[log2_item](values_[n].spread, values_[n].at, {0, 0}, {1, kRun});
      if (max_rows_ > 1) {
        alignas(8) char value[8];
        __builtin_memcpy(value, values_[n].at, 8);
        kLoadBits[log2_item](values_[n].at, value, {0, 0}, {1, max_rows_});
      }
    }
  }

  // An input that is the same in every chunk: loaded now, once.
  void fix(int input, const char* at, Steps steps, Block block) {
    fixed_[input] = allocate(kTileBytes);
    kLoad[static_cast<int>(p_.input_dtype[input])](fixed_[input], at, steps, block);
  }

  // An output that is larger than the caches.
  void stream_output(int output) { end_.is_needed = is_streamed_[output] = true; }

  // An output that is also an input: its elements may be overwritten when others read them last.
  void guard(int output, int input) {
    for (int n = 0; n < p_.count; ++n) {
      const Instruction& i = p_.code[n];
      const bool writes = i.opcode == Opcode::store && i.operand == output;
      const bool is_direct = i.direct >= 0 && p_.code[i.direct].operand == output;
      if ((writes || is_direct) && n < p_.input_last_use[input]) is_copied_[input] = true;
    }
  }

  void store_scalars(char* const* outputs) {
    for (int s = 0; s < p_.scalars.count; ++s) {
      const Instruction& i = p_.code[p_.scalars.steps[s]];
      if (i.opcode != Opcode::store) continue;
      store_fn(i)(outputs[i.operand], {0, 0}, values_[i.args[0]].at, {1, 1});
    }
  }

  void begin_rows(int64_t rows) {
    rows_ = rows;
    ++epoch_;
  }

  void begin_phase(int phase) {
    phase_ = phase;
    const Pass& reduced = p_.phases[phase].reduced;
    for (int s = 0; s < reduced.count; ++s) {
      const int n = reduced.steps[s];
      const Instruction& i = p_.code[n];
      if (i.opcode == Opcode::gather) {
        __builtin_memset(values_[n].at, 0, static_cast<size_t>(8 * rows_));
      } else {
        row_reduction(i).start(values_[n].total, rows_);
      }
    }
  }

  void end_phase() {
    const Pass& reduced = p_.phases[phase_].reduced;
    for (int s = 0; s < reduced.count; ++s) {
      const int n = reduced.steps[s];
      const Instruction& i = p_.code[n];
      if (i.opcode == Opcode::row_reduce)
        row_reduction(i).finish(values_[n].at, values_[n].total, rows_);
    }
  }

  // Row values: one element per row, `at` and `steps` those of the first row and to the next.
  void run_rows(const Pass& pass, char* const* at, const int64_t* steps) {
    for (int s = 0; s < pass.count; ++s) {
      const int n = pass.steps[s];
      const Instruction& i = p_.code[n];
      if (i.opcode == Opcode::load) {
        const int k = p_.n_outputs + i.operand;
        kLoad[static_cast<int>(i.dtype)](values_[n].at, at[k], {0, steps[k]}, {1, rows_});
      } else if (i.opcode == Opcode::store) {
        store_fn(i)(at[i.operand], {0, steps[i.operand]}, values_[i.args[0]].at, {1, rows_});
      } else {
        compute_narrow(i, n, rows_);
      }
    }
  }

  // The steps of a pass on one chunk; `sums` are the column sums' accumulators.
  void run_chunk(const Pass& pass, const Chunk& chunk, void* const* sums) {
    size_ = chunk.block.rows * chunk.block.cols;
    for (int s = 0; s < pass.count; ++s) {
      const int n = pass.steps[s];
      const Instruction& i = p_.code[n];
      Held& value = values_[n];
      if (value.operation == nullptr) {
        run_special(i, n, chunk, sums);
      } else if (find_place(i, value, chunk)) {
        apply(i, value);
      }
    }
  }

 private:
  static int64_t memory_size(const TileProgram& p, int64_t rows, int64_t kept_bytes) {
    const int64_t vector = (8 * rows + 63) / 64 * 64, kept = (kept_bytes + 63) / 64 * 64;
    return kTileBytes * (p.n_slots + p.n_spread + p.n_inputs + 1) + 2 * p.count * vector +
           p.n_kept * kept;
  }

  char* allocate(int64_t bytes) {
    char* const at = free_;
    free_ += (bytes + 63) / 64 * 64;
    return at;
  }

  static StoreTileFn store_fn(const Instruction& i) {
    return kStore[static_cast<int>(i.type)].as[static_cast<int>(i.dtype)];
  }

  static const RowReduction& row_reduction(const Instruction& i) {
    return kRowReduce[i.function].of[static_cast<int>(i.type)];
  }

  // Row and scalar values.
  void compute_narrow(const Instruction& i, int n, int64_t count) {
    if (i.opcode == Opcode::constant) {
      const bool is_real = i.type == ComputeType::f32 || i.type == ComputeType::f64;
      const ComputeType from = is_real ? ComputeType::f64 : ComputeType::i64;
      kStore[static_cast<int>(from)].as[static_cast<int>(native_dtype(i.type))](
          values_[n].at, {0, 1}, &i.payload, {1, 1});
    } else if (i.opcode == Opcode::row_size) {
      kStore[static_cast<int>(ComputeType::i64)].as[static_cast<int>(native_dtype(i.type))](
          values_[n].at, {0, 1}, &row_length_, {1, 1});
    } else if (i.opcode == Opcode::cast) {
      cast_values(i, values_[n].at, values_[i.args[0]].at, count);
    } else {
      Input in[3];
      for (int k = 0; k < i.n_args; ++k) in[k] = {values_[i.args[k]].at, kRun};
      values_[n].operation(values_[n].at, in, count);
    }
  }

  static DType native_dtype(ComputeType type) {
    constexpr DType dtypes[kNumComputeTypes] = {DType::f32, DType::f64, DType::i32, DType::i64,
                                                DType::b8};
    return dtypes[static_cast<int>(type)];
  }

  // The loop of an elementwise instruction, nullptr for others.
  OpFn operation(const Instruction& i) const {
    const int type = static_cast<int>(p_.code[i.args[0]].type);
    switch (i.opcode) {
      case Opcode::unary: return kUnary[i.function].of[type];
      case Opcode::binary: return kBinary[i.function].of[type];
      case Opcode::pair: return kPair[i.function].of[type];
      case Opcode::select: return kSelect[log2_size(compute_size(i.type))];
      default: return nullptr;
    }
  }

  // As if stored in the dtype and loaded again.
  void cast_values(const Instruction& i, void* out, const void* in, int64_t count) {
    const auto from = static_cast<int>(p_.code[i.args[0]].type);
    const StoreTileFn round = kStore[from].as[static_cast<int>(i.dtype)];
    if (is_native(i.dtype)) return round(static_cast<char*>(out), {0, 1}, in, {1, count});
    round(temporary_, {0, 1}, in, {1, count});
    kLoad[static_cast<int>(i.dtype)](out, temporary_, {0, 1}, {1, count});
  }

  // Where a full value goes; false if it is there already.
  bool find_place(const Instruction& i, Held& value, const Chunk& chunk) {
    if (i.keep < 0 || kept_bytes_ == 0) {
      value.at = target(i, chunk);
      return true;
    }
    value.at = kept_[i.keep] + chunk.start * rows_ * value.item;
    return i.phase == phase_;
  }

  // Instructions that are no function of the elements at one place.
  [[gnu::noinline]] void run_special(const Instruction& i, int n, const Chunk& chunk,
                                     void* const* sums) {
    Held& value = values_[n];
    switch (i.opcode) {
      case Opcode::load: value.at = load(i, chunk); return;
      case Opcode::store: return store(i, chunk);
      case Opcode::row_index: value.at = fill_positions(i, chunk); return;
      case Opcode::row_reduce: return reduce_rows(i, n);
      case Opcode::gather: return gather(i, n, chunk);
      case Opcode::column_sum:
        return sum_columns(i, static_cast<char*>(sums[n]) + chunk.start * value.item);
      default: break;
    }
    if (!find_place(i, value, chunk)) return;
    if (i.opcode == Opcode::add_at) return add_at(i, value.at, chunk);
    if (i.opcode == Opcode::random) return draw(i, value.at, chunk);
    cast_values(i, value.at, values_[i.args[0]].at, size_);
  }

  void reduce_rows(const Instruction& i, int n) {
    const RowReduction& by = row_reduction(i);
    const void* const x = values_[i.args[0]].at;
    if (i.n_args == 1) {
      return (is_upright_ ? by.add_upright : by.add)(values_[n].total, x, rows_, size_ / rows_);
    }
    const auto add = is_upright_ ? by.add_upright_products : by.add_products;
    add(values_[n].total, x, values_[i.args[1]].at, rows_, size_ / rows_);
  }

  void sum_columns(const Instruction& i, char* to) {
    const ColumnSum& sum = kColumnSum[static_cast<int>(i.type)];
    const void* const x = values_[i.args[0]].at;
    if (i.n_args == 1) return sum.add(to, x, rows_, size_ / rows_);
    sum.add_products(to, x, values_[i.args[1]].at, rows_, size_ / rows_);
  }

  // An elementwise instruction on the chunk: at once, or row by row (line by line of an upright
  // tile) where it takes a row value.
  void apply(const Instruction& i, const Held& result) {
    Input in[3];
    bool by_rows = false;
    for (int k = 0; k < i.n_args; ++k) {
      Held& value = values_[i.args[k]];
      if (value.kind == ValueKind::full) {
        in[k] = {value.at, kRun};
      } else if (value.kind == ValueKind::scalar) {
        in[k] = {value.spread, 0};
      } else if (is_upright_) {
        in[k] = {value.at, kRun};
        by_rows = size_ > rows_;
      } else if (size_ < kShortRow * rows_) {
        in[k] = {repeated(value, size_ / rows_), kRun};
      } else {
        in[k] = {repeated(value, kRun), 0};
        by_rows = rows_ > 1;
      }
    }
    if (!by_rows) return result.operation(result.at, in, size_);
    apply_by_rows(i, result, in);
  }

  [[gnu::noinline]] void apply_by_rows(const Instruction& i, const Held& result, Input* in) {
    const int64_t length = is_upright_ ? rows_ : size_ / rows_;
    for (int64_t r = 0; r < size_ / length; ++r) {
      result.operation(result.at + r * length * result.item, in, length);
      for (int k = 0; k < i.n_args; ++k) {
        const Held& value = values_[i.args[k]];
        if (value.kind < ValueKind::full && (is_upright_ || value.kind == ValueKind::scalar))
          continue;
        const int64_t moved = (value.kind == ValueKind::full ? length : kRun) * value.item;
        in[k].at = static_cast<const char*>(in[k].at) + moved;
      }
    }
  }

  // Where a result goes: straight into its output, or into a tile.
  char* target(const Instruction& i, const Chunk& chunk) const {
    if (i.direct >= 0 && !is_streamed_[p_.code[i.direct].operand]) {
      const Instruction& store = p_.code[i.direct];
      const bool is_native_store = is_native(store.dtype) && compute_type(store.dtype) == i.type;
      if (is_native_store && is_tile(chunk.steps[store.operand], chunk.block)) {
        return chunk.at[store.operand];
      }
    }
    return slots_[i.slot];
  }

  // The elements of a row value, each several times.
  const char* repeated(Held& value, int64_t times) {
    if (value.epoch != epoch_ || value.length != times) {
      kLoadBits[log2_size(value.item)](value.spread, value.at, {1, 0}, {rows_, times});
      value.epoch = epoch_;
      value.length = times;
    }
    return value.spread;
  }

  char* load(const Instruction& i, const Chunk& chunk) {
    if (fixed_[i.operand] != nullptr) return fixed_[i.operand];
    const int k = p_.n_outputs + i.operand;
    if (is_native(i.dtype) && !is_copied_[i.operand] && is_tile(chunk.steps[k], chunk.block)) {
      return chunk.at[k];
    }
    kLoad[static_cast<int>(i.dtype)](slots_[i.slot], chunk.at[k], chunk.steps[k], chunk.block);
    return slots_[i.slot];
  }

  void store(const Instruction& i, const Chunk& chunk) {
    const void* const from = values_[i.args[0]].at;
    char* const to = chunk.at[i.operand];
    const Steps steps = chunk.steps[i.operand];
    if (from == to) return;
    const int64_t bytes = size_ * item_size(i.dtype);
    if (!is_streamed_[i.operand] || bytes > kTileBytes || !is_tile(steps, chunk.block)) {
      return store_fn(i)(to, steps, from, chunk.block);
    }
    if (is_native(i.dtype) && compute_type(i.dtype) == i.type) return stream(to, from, bytes);
    store_fn(i)(temporary_, {0, 1}, from, {1, size_});
    stream(to, temporary_, bytes);
  }

  char* fill_positions(const Instruction& i, const Chunk& chunk) {
    const int64_t length = size_ / rows_;
    int64_t positions[kTileBytes / 4];
    for (int64_t c = 0; c < length; ++c) positions[c] = chunk.start + c;
    const StoreTileFn put =
        kStore[static_cast<int>(ComputeType::i64)].as[static_cast<int>(native_dtype(i.type))];
    const int64_t item = compute_size(i.type);
    for (int64_t r = 0; r < rows_; ++r) {
      char* const to = slots_[i.slot] + r * (is_upright_ ? 1 : length) * item;
      put(to, {0, is_upright_ ? rows_ : 1}, positions, {1, length});
    }
    return slots_[i.slot];
  }

  // The stream's words at the positions of the chunk's elements.
  void draw(const Instruction& i, char* to, const Chunk& chunk) {
    const int k = p_.n_outputs + p_.n_inputs;
    const Steps steps = chunk.steps[k];
    const auto word = [&](int arg) {
      return *reinterpret_cast<const uint64_t*>(values_[i.args[arg]].at);
    };
    uint64_t first = word(1) + static_cast<uint64_t>(chunk.at[k] - stream_origin());
    float* const out = reinterpret_cast<float*>(to);
    if (is_tile(steps, chunk.block)) return draw_uniforms(out, size_, word(0), first, 1);
    for (int64_t r = 0; r < chunk.block.rows; ++r, first += static_cast<uint64_t>(steps.row)) {
      draw_uniforms(out + r * chunk.block.cols, chunk.block.cols, word(0), first, steps.col);
    }
  }

  // Calls body(T, the row value `index`, of 4 or 8 bytes) with a compute type.
  template <class F>
  void with_index(ComputeType type, int index, const F& body) const {
    const char* const at = values_[index].at;
    with_type(type, [&](auto item) {
      if (p_.code[index].type == ComputeType::i32) {
        return body(item, reinterpret_cast<const int32_t*>(at));
      }
      body(item, reinterpret_cast<const int64_t*>(at));
    });
  }

  // Calls body(row, element of the tile) where a row's index points into this chunk.
  template <class I, class F>
  void for_each_place(const I* index, int64_t start, const F& body) const {
    const int64_t length = size_ / rows_;
    for (int64_t r = 0; r < rows_; ++r) {
      const int64_t at = static_cast<int64_t>(index[r]) - start;
      if (at >= 0 && at < length) body(r, r * length + at);
    }
  }

  void gather(const Instruction& i, int n, const Chunk& chunk) {
    with_index(i.type, i.args[1], [&](auto item, const auto* index) {
      using T = decltype(item);
      const T* const from = reinterpret_cast<const T*>(values_[i.args[0]].at);
      T* const to = reinterpret_cast<T*>(values_[n].at);
      if (is_upright_) return pick_from_lines(to, from, index, chunk.start, chunk.block);
      for_each_place(index, chunk.start, [=](int64_t r, int64_t at) { to[r] = from[at]; });
    });
  }

  void add_at(const Instruction& i, char* result, const Chunk& chunk) {
    const char* const given = values_[i.args[0]].at;
    const size_t bytes = static_cast<size_t>(size_ * compute_size(i.type));
    if (result != given) __builtin_memcpy(result, given, bytes);
    with_index(i.type, i.args[1], [&](auto item, const auto* index) {
      using T = decltype(item);
      const T* const added = reinterpret_cast<const T*>(values_[i.args[2]].at);
      T* const to = reinterpret_cast<T*>(result);
      if (is_upright_) return add_to_lines(to, added, index, chunk.start, chunk.block);
      for_each_place(index, chunk.start,
                     [=](int64_t r, int64_t at) { to[at] = static_cast<T>(to[at] + added[r]); });
    });
  }

  const TileProgram& p_;
  const bool is_upright_;
  const int64_t max_rows_, kept_bytes_, row_length_;
  Scratch<32768> memory_;
  char* free_;
  int64_t rows_ = 1, size_ = 0, epoch_ = 0;
  int phase_ = 0;
  StreamEnd end_{false};
  bool is_copied_[kMaxOperands], is_streamed_[kMaxOperands];
  char* temporary_;
  char* slots_[kMaxInstructions];
  char* fixed_[kMaxOperands];
  char* kept_[kMaxInstructions];
  Held values_[kMaxInstructions];
};

}  // namespace
}  // namespace needle::NEEDLE_ISA
