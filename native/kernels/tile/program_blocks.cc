// Tile programs on blocks of matrices, one of which a product has at hand (epilogue.h).
#include "builtin_run.h"
#include "epilogue.h"
#include "machine.h"

namespace needle::NEEDLE_ISA {
namespace {

// A program on a part of matrices, of which the one numbered `held`, outputs first, lies in a block
// of its own.
class BlockRun {
 public:
  BlockRun(const TileProgram& p, const View* const* outputs, const View* const* inputs, int held,
           float* block, int64_t block_stride)
      : p_(p),
        outputs_(outputs),
        inputs_(inputs),
        held_(held),
        block_(block),
        stride_(block_stride) {}

  void run(int64_t row0, int64_t rows, int64_t col0, int64_t cols) const {
    if (is_builtin()) return run_builtin(row0, rows, col0, cols);
    const int64_t width = min_of(cols, tile_capacity(p_));
    for (int64_t col = 0; col < cols; col += width) {
      run_strip(row0, rows, col0, col, min_of(width, cols - col));
    }
  }

 private:
  // Is the program a built-in one, whose operands are all matrices (no scalars, which may have
  // other types) with columns side by side? A bias and relu after 2048 x 64 x 1024 (two
  // cores): 1.51 ms, interpreted 1.66.
  bool is_builtin() const {
    if (p_.builtin < 0 || kBuiltin[p_.builtin].run == nullptr) return false;
    for (int k = 0; k < count(); ++k) {
      if (steps(k).col != 1) return false;
    }
    return true;
  }

  void run_builtin(int64_t row0, int64_t rows, int64_t col0, int64_t cols) const {
    char* data[kMaxOperands];
    int64_t row_bytes[kMaxOperands];
    for (int k = 0; k < count(); ++k) {
      data[k] = k == held_ ? reinterpret_cast<char*>(block_) : at(k, row0, col0);
      row_bytes[k] = steps(k).row * static_cast<int64_t>(sizeof(float));
    }
    kBuiltin[p_.builtin].run(
        {.program = p_, .data = data, .row_bytes = row_bytes, .length = cols, .block = cols}, 0,
        rows);
  }

  // Columns that fit a tile, some rows at a time. Inputs that all rows share are loaded once.
  void run_strip(int64_t row0, int64_t rows, int64_t col0, int64_t col, int64_t cols) const {
    const int64_t height = min_of(rows, max_of(1, tile_capacity(p_) / cols));
    Machine machine(p_, 1, 0, 1);
    char* inputs[kMaxOperands];
    for (int k = 0; k < p_.n_inputs; ++k) inputs[k] = is_held(k) ? nullptr : inputs_[k]->data;
    machine.start(inputs);
    for (int k = 0; is_held(0) && k < p_.n_outputs; ++k) {
      if (at(k, row0, col0) == reinterpret_cast<char*>(block_)) machine.guard(k, 0);
    }
    const int stream = count();  // of random numbers, in C order
    const int64_t whole = p_.is_random ? outputs_[0]->shape[1] : 0;
    const auto place = [&](Chunk& chunk, int64_t row) {
      chunk.block = {min_of(height, rows - row), cols};
      for (int k = 0; k < count(); ++k) {
        chunk.at[k] = k == held_ ? reinterpret_cast<char*>(block_ + row * stride_ + col)
                                 : at(k, row0 + row, col0 + col);
      }
      if (p_.is_random) chunk.at[stream] = stream_origin() + (row0 + row) * whole + col0 + col;
    };
    Chunk chunk;
    chunk.start = 0;
    for (int k = 0; k < count(); ++k) chunk.steps[k] = steps(k);
    if (p_.is_random) chunk.steps[stream] = {whole, 1};
    place(chunk, 0);
    for (int k = 0; k < p_.n_inputs; ++k) {
      const int n = p_.n_outputs + k;
      const bool is_shared = chunk.steps[n].row == 0 && p_.input_kind[k] == ValueKind::full;
      if (is_shared && !is_held(k)) machine.fix(k, chunk.at[n], chunk.steps[n], chunk.block);
    }
    machine.begin_rows(1);
    machine.begin_phase(0);
    for (int64_t row = 0; row < rows; row += height) {
      Chunk next = chunk;
      if (row + height < rows) {
        place(next, row + height);
        prefetch(next);
      }
      machine.run_chunk(p_.phases[0].fresh, chunk, nullptr);
      chunk = next;
    }
  }

  void prefetch(const Chunk& next) const {
    for (int k = p_.n_outputs; k < count(); ++k) {
      if (k != held_) prefetch_operand(next, k, item_size(view(k).dtype));
    }
  }

  int count() const { return p_.n_outputs + p_.n_inputs; }

  bool is_held(int input) const { return p_.n_outputs + input == held_; }

  const View& view(int k) const {
    return k < p_.n_outputs ? *outputs_[k] : *inputs_[k - p_.n_outputs];
  }

  Steps steps(int k) const {
    if (k == held_) return {stride_, 1};
    return {view(k).strides[0], view(k).strides[1]};
  }

  char* at(int k, int64_t row, int64_t col) const {
    const int64_t place = row * view(k).strides[0] + col * view(k).strides[1];
    return view(k).data + place * item_size(view(k).dtype);
  }

  const TileProgram& p_;
  const View *const *outputs_, *const *inputs_;
  const int held_;
  float* const block_;
  const int64_t stride_;
};

// A program that reduces rows, on a block of whole ones.
void run_on_rows(const Epilogue& epilogue, float* block, int64_t block_stride, int64_t row0,
                 int64_t rows) {
  const TileProgram& p = *epilogue.program;
  View views[kMaxOperands];
  const View* operands[kMaxOperands];
  for (int k = 0; k < p.n_outputs + p.n_inputs; ++k) {
    View& view = views[k];
    view = k < p.n_outputs ? *epilogue.outputs[k] : *epilogue.inputs[k - p.n_outputs];
    if (k == p.n_outputs) {
      view = *epilogue.outputs[0];  // the product, which has its shape
      view.data = reinterpret_cast<char*>(block);
      view.dtype = DType::f32;
      view.strides[0] = block_stride;
      view.strides[1] = 1;
    } else {
      view.data += row0 * view.strides[0] * item_size(view.dtype);
    }
    view.shape[0] = rows;
    operands[k] = &view;
  }
  run_program(p, operands, 1);
}

}  // namespace

void run_on_block(const Epilogue& epilogue, float* block, int64_t block_stride, int64_t row0,
                  int64_t rows, int64_t col0, int64_t cols) {
  const TileProgram& p = *epilogue.program;
  if (epilogue.has_rows()) return run_on_rows(epilogue, block, block_stride, row0, rows);
  BlockRun(p, epilogue.outputs, epilogue.inputs, p.n_outputs, block, block_stride)
      .run(row0, rows, col0, cols);
}

void compute_block(const Prologue& prologue, float* block, int64_t block_stride, int64_t row0,
                   int64_t rows, int64_t col0, int64_t cols) {
  BlockRun(*prologue.program, nullptr, prologue.inputs, 0, block, block_stride)
      .run(row0, rows, col0, cols);
}

}  // namespace needle::NEEDLE_ISA
