// Tile programs over strided operands: how rows are cut into chunks, and work into pieces.
#include "builtin_run.h"
#include "kernels/entries.h"
#include "machine.h"

namespace needle::NEEDLE_ISA {
namespace {

constexpr int64_t kKeptBytes = 256 << 10;  // of a tile's rows between phases: stays in L2
constexpr int64_t kFarElements = 1 << 18;  // that may not be in a core's own cache any more

// The operands of a program, with its random numbers as the last one if it has any: their order is
// the C order of the shape that the program runs over.
class Operands {
 public:
  Operands(const TileProgram& p, const View* const* given) : count_(p.n_outputs + p.n_inputs) {
    for (int k = 0; k < count_; ++k) all_[k] = given[k];
    if (!p.is_random) return;
    stream_.data = stream_origin();
    stream_.dtype = DType::u8;  // bytes are words
    stream_.ndim = given[0]->ndim;
    for (int d = 0; d < stream_.ndim; ++d) stream_.shape[d] = given[0]->shape[d];
    stream_.set_compact_strides();
    all_[count_++] = &stream_;
  }
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;

  const View* const* all() const { return all_; }
  int count() const { return count_; }

 private:
  int count_;
  const View* all_[kMaxOperands];
  View stream_;
};

// The operands that are not asked for ahead, as bits: outputs that are streamed, which are large
// ones that are no inputs, and random numbers.
uint32_t streamed_operands(const TileProgram& p, const View* const* operands) {
  uint32_t found = p.is_random ? 1u << (p.n_outputs + p.n_inputs) : 0;
  for (int out = 0; out < p.n_outputs; ++out) {
    bool is_fit = p.output_kind[out] == ValueKind::full && is_streamed(*operands[out]);
    for (int in = 0; in < p.n_inputs; ++in) {
      is_fit = is_fit && operands[out]->data != operands[p.n_outputs + in]->data;
    }
    if (is_fit) found |= 1u << out;
  }
  return found;
}

// Tells the machine which outputs are also inputs, and which are streamed.
void prepare_outputs(const TileProgram& p, const Walk& walk, uint32_t streamed, Machine& machine) {
  for (int out = 0; out < p.n_outputs; ++out) {
    for (int in = 0; in < p.n_inputs; ++in) {
      if (walk.data[out] == walk.data[p.n_outputs + in]) machine.guard(out, in);
    }
    if ((streamed >> out & 1) != 0) machine.stream_output(out);
  }
}

// The built-in form of a program, or an empty one. The last axis must be the row, and the elements
// of full operands side by side.
Builtin builtin_form(const TileProgram& p, const Walk& rows) {
  if (p.builtin < 0) return {};
  for (int k = 0; k < rows.count; ++k) {
    const ValueKind kind = k < p.n_outputs ? p.output_kind[k] : p.input_kind[k - p.n_outputs];
    if (kind == ValueKind::full && rows.steps(k).col != 1) return {};
  }
  return kBuiltin[p.builtin];
}

// Asks for what comes next, but for streamed outputs.
void prefetch(const Chunk& next, const Walk& walk, uint32_t streamed) {
  for (int k = 0; k < walk.count; ++k) {
    if ((streamed >> k & 1) == 0) prefetch_operand(next, k, walk.item[k]);
  }
}

// Elements in one piece of parallel_for: fewer where each takes more instructions. Two threads,
// with the call of a compiled function: the column sums of tanh(a b + c) d over 100 x 100 elements
// took 32 us in one piece, and take 28.
int64_t grain_of(const TileProgram& p, int64_t elements) {
  constexpr int kSimple = 4, kMost = 16;
  return grain_of(elements, kGrain * kSimple / min_of(kMost, max_of(kSimple, p.count)));
}

// Programs of full and scalar values, over blocks in the order of the first output's memory.
class ElementwiseRun {
 public:
  ElementwiseRun(const TileProgram& p, const View* const* operands)
      : p_(p), streamed_(streamed_operands(p, operands)), walk_(walk_of(Operands(p, operands))) {
    const int64_t capacity = tile_capacity(p);
    if (operands[0]->size() == 0) return;
    shape_ = block_shape(walk_, capacity, capacity);
    blocks_ = ceil_div(walk_.cols(), shape_.cols) * ceil_div(walk_.rows(), shape_.rows);
    for (int d = 0; d < walk_.ndim - 2; ++d) blocks_ *= walk_.shape[d];
    const int64_t size = shape_.rows * shape_.cols;
    grain_ = max_of(1, grain_of(p, blocks_ * size) / size);
    if (walk_.ndim == 2 && walk_.rows() == 1) builtin_ = builtin_form(p, walk_);
  }

  int64_t n_pieces() const { return ceil_div(blocks_, grain_); }

  void run_piece(int64_t piece) const {
    if (builtin_.run != nullptr) return run_builtin(piece);
    Machine machine(p_, 1, 0, 1);
    machine.start(walk_.data + p_.n_outputs);
    prepare_outputs(p_, walk_, streamed_, machine);
    Chunk chunks[2];  // this one and the next: only where they begin is written anew
    for (Chunk& chunk : chunks) {
      chunk.start = 0;
      for (int k = 0; k < walk_.count; ++k) chunk.steps[k] = walk_.steps(k);
    }
    for (int k = 0; k < p_.n_inputs; ++k) {
      const int at = p_.n_outputs + k;
      if (p_.input_kind[k] == ValueKind::full && walk_.is_constant(at)) {
        machine.fix(k, walk_.data[at], {0, 0}, {1, shape_.rows * shape_.cols});
      }
    }
    machine.begin_rows(1);
    machine.begin_phase(0);
    const int64_t begin = piece * grain_, end = min_of(blocks_, begin + grain_);
    BlockCursor cursor(walk_, shape_, begin);
    chunks[begin % 2].block = cursor.locate(chunks[begin % 2].at);
    for (int64_t block = begin; block < end; ++block) {
      cursor.next();
      Chunk& next = chunks[(block + 1) % 2];
      next.block = cursor.locate(next.at);
      if (block + 1 < end) prefetch(next, walk_, streamed_);
      machine.run_chunk(p_.phases[0].fresh, chunks[block % 2], nullptr);
    }
  }

 private:
  static Walk walk_of(const Operands& operands) {
    return make_walk(operands.all(), operands.count());
  }

  // The piece as one row.
  void run_builtin(int64_t piece) const {
    const int64_t size = grain_ * shape_.cols, first = piece * size;
    char* at[kMaxOperands];
    const int64_t row_bytes[kMaxOperands] = {};
    for (int k = 0; k < walk_.count; ++k) {
      at[k] = walk_.data[k] + first * walk_.steps(k).col * walk_.item[k];
    }
    const int64_t length = min_of(size, walk_.cols() - first);
    builtin_.run({.program = p_,
                  .data = at,
                  .row_bytes = row_bytes,
                  .length = length,
                  .block = length,
                  .streamed = streamed_},
                 0, 1);
  }

  const TileProgram& p_;
  const uint32_t streamed_;
  Walk walk_;
  Block shape_;
  int64_t blocks_ = 0, grain_ = 1;
  Builtin builtin_;
};

// A memset of no bytes costs a quarter of a microsecond on Zen 4, where glibc stores with an empty
// mask: layer norm of 256 x 384 took 39 us with one for each piece, and 34 without.
void clear(char* data, int64_t bytes) {
  if (bytes > 0) __builtin_memset(data, 0, static_cast<size_t>(bytes));
}

// Programs with rows. `outer` walks over rows, several of which make a tile; `inner` over a row's
// elements, in chunks.
class RowRun {
 public:
  RowRun(const TileProgram& p, const View* const* operands, int inner)
      : RowRun(p, Operands(p, operands), inner) {}

  RowRun(const TileProgram& p, const Operands& operands, int inner)
      : p_(p), count_(operands.count()), streamed_(streamed_operands(p, operands.all())) {
    const int ndim = operands.all()[0]->ndim;
    outer_ = walk_over(operands.all(), count_, 0, ndim - inner);
    inner_ = walk_over(operands.all(), count_, ndim - inner, ndim);
    merge_axes(outer_);
    merge_axes(inner_);
    is_simple_ = inner_.ndim <= 1;
    pad_axes(outer_);
    pad_axes(inner_);
    length_ = 1;
    for (int d = 0; d < inner_.ndim; ++d) length_ *= inner_.shape[d];
    plan();
    if (is_simple_ && outer_.ndim == 2 && outer_.rows() == 1) builtin_ = builtin_form(p, inner_);
    if (builtin_.n_kept * length_ * static_cast<int64_t>(sizeof(float)) > kKeptBytes) builtin_ = {};
  }

  void run() {
    int64_t tiles = ceil_div(outer_.cols(), rows_);
    for (int d = 0; d < outer_.ndim - 1; ++d) tiles *= outer_.shape[d];
    const bool has_columns = p_.columns.count > 0;  // each piece has sums of its own to add up
    const int64_t size = max_of(1, rows_ * length_);
    int64_t grain = max_of(1, (has_columns ? kGrain : grain_of(p_, tiles * size)) / size);
    if (has_columns) grain = max_of(grain, ceil_div(tiles, kMaxPieces));
    const int64_t n_pieces = ceil_div(tiles, grain);
    const int64_t columns = p_.columns.count * length_;
    const int64_t bytes = max_of(1, n_pieces) * columns * 8;
    Scratch<4096> scratch(bytes);
    totals_ = scratch.as<char>();
    clear(totals_, bytes);
    parallel_for(n_pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        run_piece(piece * grain, min_of(tiles, (piece + 1) * grain), totals_ + piece * columns * 8);
      }
    });
    store_columns(n_pieces, columns);
    store_scalars();
  }

 private:
  // How many rows make a tile, how much of a row a chunk, and what is kept between phases.
  void plan() {
    const int64_t capacity = tile_capacity(p_);
    rows_ = 1;
    if (!is_simple_) {
      const bool is_long = inner_.cols() >= kLongRow;
      chunk_ = is_long ? Block{1, min_of(inner_.cols(), capacity)}
                       : Block{min_of(inner_.rows(), capacity / max_of(1, inner_.cols())),
                               max_of(1, inner_.cols())};
    } else if (lies_across()) {
      is_upright_ = p_.columns.count == 0 && !p_.is_random && outer_.cols() >= kLineRows;
      rows_ = max_of(1, min_of(outer_.cols(), is_upright_ ? upright_rows() : kLineRows));
      const int64_t room = is_upright_ ? kTileBytes / widest_full() : capacity;
      chunk_ = {1, max_of(1, min_of(length_, room / rows_))};
    } else {
      chunk_ = {1, max_of(1, min_of(length_, capacity))};
      rows_ = max_of(1, min_of(outer_.cols(), capacity / chunk_.cols));
    }
    has_one_chunk_ = chunk_.rows * chunk_.cols >= length_;
    for (int k = 0; k < count_; ++k) {
      chunk_bytes_[k] = chunk_.cols * inner_.steps(k).col * inner_.item[k];
    }
    const int64_t kept = rows_ * length_;
    kept_ = p_.n_kept * kept * p_.widest <= kKeptBytes ? kept : 0;
  }

  // Bytes of the widest compute type in an upright tile: row values are kept outside of it.
  int64_t widest_full() const {
    int64_t widest = 4;
    for (int n = 0; n < p_.count; ++n) {
      const Instruction& i = p_.code[n];
      if (i.kind == ValueKind::full) widest = max_of(widest, compute_size(i.type));
    }
    return widest;
  }

  // The rows of a line should be kept. Short rows have lines as long as a tile, which the
  // hardware's prefetching follows, if enough are left. Softmax over the second axis of 32 x 21 x
  // 64 x 64 on one thread takes 3.9 ms with lines of 256 and 2.8 with 1024, its gradient 4.1
  // and 3.0; over rows of 150 both take the same time.
  int64_t upright_rows() const {
    constexpr int64_t kFew = 256, kTiles = 16;
    int64_t all = 1;
    for (int d = 0; d < outer_.ndim; ++d) all *= outer_.shape[d];
    const int64_t most = min_of(kTileBytes / widest_full(), max_of(kFew, all / kTiles));
    const int64_t length = max_of(1, length_), bytes = max_of(1, p_.n_kept) * p_.widest * length;
    const int64_t kept = max_of(min_of(kFew, kKeptBytes / bytes), kKeptBytes / 2 / bytes);
    return max_of(tile_capacity(p_) / length, max_of(kShortRow, min_of(most, kept)));
  }

  // Are the elements of an operand's rows further apart than its rows?
  bool lies_across() const {
    for (int k = 0; k < count_; ++k) {
      const int64_t row = length_of(outer_.steps(k).col), col = length_of(inner_.steps(k).col);
      if (row != 0 && row < col) return true;
    }
    return false;
  }

  bool is_same_for_all_rows(int k) const {
    for (int d = 0; d < outer_.ndim; ++d) {
      if (outer_.strides[d][k] != 0 && outer_.shape[d] != 1) return false;
    }
    return true;
  }

  void prepare(Machine& machine) const {
    machine.start(outer_.data + p_.n_outputs);
    prepare_outputs(p_, outer_, streamed_, machine);
    for (int input = 0; input < p_.n_inputs; ++input) {
      const int k = p_.n_outputs + input;
      if (p_.input_kind[input] != ValueKind::full || !is_same_for_all_rows(k)) continue;
      if (inner_.is_constant(k)) {
        machine.fix(input, outer_.data[k], {0, 0}, {1, rows_ * chunk_.rows * chunk_.cols});
      } else if (has_one_chunk_ && is_simple_ && !is_upright_) {
        machine.fix(input, outer_.data[k], {0, inner_.steps(k).col}, {rows_, length_});
      }
    }
  }

  void run_piece(int64_t begin, int64_t end, char* totals) const {
    const int64_t bytes = p_.columns.count * length_ * 8;
    Scratch<8192> scratch(bytes);
    void* sums[kMaxInstructions];
    for (int c = 0; c < p_.columns.count; ++c) {
      sums[p_.columns.steps[c]] = scratch.as<char>() + c * length_ * 8;
    }
    clear(scratch.as<char>(), bytes);
    if (builtin_.run != nullptr) {
      return run_builtin(begin * rows_, min_of(outer_.cols(), end * rows_), sums, totals);
    }
    Machine machine(p_, rows_, kept_, length_, is_upright_);
    prepare(machine);
    int64_t row_steps[kMaxOperands];
    for (int k = 0; k < count_; ++k) row_steps[k] = outer_.steps(k).col;
    Chunk chunk = first_chunk(), next = chunk;
    for (int k = 0; k < count_ && !is_upright_; ++k) {
      if (row_steps[k] == 0) next.steps[k].col = 0;  // the same for all rows: here
    }
    BlockCursor cursor(outer_, {1, rows_}, begin);
    char* at[kMaxOperands];
    int64_t rows = cursor.locate(at).cols, added = 0;
    for (int64_t tile = begin; tile < end; ++tile, rows = cursor.locate(at).cols) {
      cursor.next();
      if (tile + 1 < end) prefetch_rows(cursor, next);
      run_tile(machine, rows, at, row_steps, sums, chunk);
      if ((added += rows) >= kStretch || tile + 1 == end) {
        flush(totals, sums);
        added = 0;
      }
    }
  }

  void run_builtin(int64_t first, int64_t last, void* const* sums, char* totals) const {
    int64_t row_bytes[kMaxOperands];
    for (int k = 0; k < count_; ++k) row_bytes[k] = outer_.steps(k).col * outer_.item[k];
    constexpr int64_t kSize = sizeof(float);
    Scratch<2 * kTogetherBytes> kept(builtin_.n_kept * max_of(length_ * kSize, kTogetherBytes));
    const BuiltinCall call = {.program = p_,
                              .data = outer_.data,
                              .row_bytes = row_bytes,
                              .length = length_,
                              .block = tile_capacity(p_),
                              .kept = kept.as<float>(),
                              .sums = sums,
                              .tile = rows_,
                              .streamed = streamed_,
                              .is_far = outer_.cols() * length_ >= kFarElements};
    const int64_t stretch = ceil_div(kStretch, rows_) * rows_;
    for (int64_t row = first; row < last; row += stretch) {
      builtin_.run(call, row, min_of(last, row + stretch));
      flush(totals, sums);
    }
  }

  void prefetch_rows(const BlockCursor& cursor, Chunk& next) const {
    constexpr int64_t kMost = 32 << 10;  // bytes of an operand's rows
    if (!is_simple_ || rows_ * length_ * 4 > kMost) return;
    next.block = tile_block(cursor.locate(next.at).cols, length_);
    prefetch(next, inner_, streamed_);
  }

  void run_tile(Machine& machine, int64_t rows, char* const* at, const int64_t* row_steps,
                void* const* sums, Chunk& chunk) const {
    machine.begin_rows(rows);
    for (int phase = 0; phase < p_.n_phases; ++phase) {
      const Phase& now = p_.phases[phase];
      machine.run_rows(now.rows, at, row_steps);
      machine.begin_phase(phase);
      const Pass& pass = kept_ > 0 || p_.n_kept == 0 ? now.fresh : now.again;
      for_each_chunk(rows, at, chunk, [&] { machine.run_chunk(pass, chunk, sums); });
      machine.end_phase();
    }
    machine.run_rows(p_.last_rows, at, row_steps);
  }

  // A chunk with the steps of all of them.
  Chunk first_chunk() const {
    Chunk chunk;
    for (int k = 0; k < count_; ++k) {
      const int64_t row = is_simple_ ? outer_.steps(k).col : inner_.steps(k).row;
      const int64_t col = inner_.steps(k).col;
      chunk.steps[k] = is_upright_ ? Steps{col, row} : Steps{row, col};
    }
    return chunk;
  }

  Block tile_block(int64_t rows, int64_t cols) const {
    return is_upright_ ? Block{cols, rows} : Block{rows, cols};
  }

  // Calls body() with each chunk of the rows that begin at `at`.
  template <class F>
  void for_each_chunk(int64_t rows, char* const* at, Chunk& chunk, F&& body) const {
    chunk.start = 0;
    if (length_ == 0) return;
    if (is_simple_) {
      for (int k = 0; k < count_; ++k) chunk.at[k] = at[k];
      while (true) {
        chunk.block = tile_block(rows, min_of(chunk_.cols, length_ - chunk.start));
        body();
        if ((chunk.start += chunk_.cols) >= length_) return;
        for (int k = 0; k < count_; ++k) chunk.at[k] += chunk_bytes_[k];
      }
    }
    Walk inner = inner_;
    for (int k = 0; k < count_; ++k) inner.data[k] = at[k];
    BlockCursor cursor(inner, chunk_, 0);
    for (; chunk.start < length_; cursor.next()) {
      chunk.block = cursor.locate(chunk.at);
      body();
      chunk.start += chunk.block.rows * chunk.block.cols;
    }
  }

  void flush(char* totals, void* const* sums) const {
    for (int c = 0; c < p_.columns.count; ++c) {
      const int n = p_.columns.steps[c];
      const ColumnSum& sum = kColumnSum[static_cast<int>(p_.code[n].type)];
      sum.flush(totals + c * length_ * 8, sums[n], length_);
    }
  }

  // The pieces' totals, added up in order.
  void store_columns(int64_t n_pieces, int64_t columns) const {
    for (int c = 0; c < p_.columns.count; ++c) {
      const int n = p_.columns.steps[c];
      const ColumnSum& sum = kColumnSum[static_cast<int>(p_.code[n].type)];
      char* const total = totals_ + c * length_ * 8;
      for (int64_t piece = 1; piece < n_pieces; ++piece) {
        sum.combine(total, total + piece * columns * 8, length_);
      }
      const int64_t item = compute_size(sum.total);
      for (int s = 0; s < p_.count; ++s) {
        const Instruction& i = p_.code[s];
        if (i.opcode != Opcode::store || i.args[0] != n) continue;
        const StoreTileFn put = kStore[static_cast<int>(sum.total)].as[static_cast<int>(i.dtype)];
        Chunk chunk = first_chunk();
        for_each_chunk(1, outer_.data, chunk, [&] {
          put(chunk.at[i.operand], chunk.steps[i.operand], total + chunk.start * item, chunk.block);
        });
      }
    }
  }

  void store_scalars() const {
    bool is_needed = false;
    for (int k = 0; k < p_.n_outputs; ++k) is_needed |= p_.output_kind[k] == ValueKind::scalar;
    if (!is_needed) return;
    Machine machine(p_, 1, 0, length_);
    machine.start(outer_.data + p_.n_outputs);
    machine.store_scalars(outer_.data);
  }

  const TileProgram& p_;
  const int count_;
  const uint32_t streamed_;
  Walk outer_, inner_;
  bool is_simple_;           // a row is one axis
  bool is_upright_ = false;  // see Machine
  int64_t length_;           // of a row
  int64_t rows_;
  Block chunk_;
  int64_t chunk_bytes_[kMaxOperands];  // from one to the next in a row
  bool has_one_chunk_;
  int64_t kept_;
  char* totals_;
  Builtin builtin_;
};

}  // namespace

void run_program(const TileProgram& program, const View* const* operands, int inner) {
  bool has_scalar_output = false;
  for (int k = 0; k < program.n_outputs; ++k) {
    has_scalar_output |= program.output_kind[k] == ValueKind::scalar;
  }
  if (!program.is_elementwise || has_scalar_output) {
    return RowRun(program, operands, inner).run();
  }
  const ElementwiseRun run(program, operands);
  parallel_for(run.n_pieces(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) run.run_piece(piece);
  });
}

// All calls as one parallel loop, so that many small ones keep all threads busy.
void run_each(const TileProgram& program, const View* const* operands, int calls) {
  const int count = program.n_outputs + program.n_inputs;
  Scratch<4096> scratch((calls + 1) * 8);
  int64_t* const first = scratch.as<int64_t>();  // piece of each call
  first[0] = 0;
  for (int c = 0; c < calls; ++c) {
    first[c + 1] = first[c] + ElementwiseRun(program, operands + c * count).n_pieces();
  }
  parallel_for(first[calls], 1, [&](int64_t begin, int64_t end) {
    int call = 0;
    while (begin < end) {
      while (first[call + 1] <= begin) ++call;
      const ElementwiseRun run(program, operands + call * count);
      for (; begin < end && begin < first[call + 1]; ++begin) run.run_piece(begin - first[call]);
    }
  });
}

}  // namespace needle::NEEDLE_ISA
