// C = A B for strided matrices of any dtype, by blocks of brgemm.h.
//
//     for each region of B (columns, span of k)   packed by all threads, stays in the shared cache
//       for each tile of C                        threads take them one by one
//         for each block of k                     A's rows of the block fit the second-level cache,
//           for each panel of B's columns         a panel of B the first,
//             for each block of C's rows          and a block of C the registers
//
// A and B are read where they lie when they are small, or used too little to pay for a copy, and A
// also when its rows are contiguous. Otherwise B is packed into panels and A copied before the
// tiles start, or by the tile when no other needs the same part. Sums are kept in C, or in the
// tile's own memory if C is of another dtype. Few rows pass over B in the order of memory,
// kThinDepth of its rows at a time. Nothing splits a sum over k but depth_ (and gemm_long.h), so
// results depend neither on the number of threads nor on what is packed.
#pragma once

#include "brgemm.h"
#include "kernels/tile/epilogue.h"
#include "kernels/workspace.h"
#include "pack.h"

namespace needle::NEEDLE_ISA {

template <class T>
struct Result {
  char* data;
  int64_t row_stride, col_stride;
  StoreFn<T> store;
  bool is_plain;  // rows are Ts side by side: tiles are written in place

  NEEDLE_INLINE char* at(int64_t row, int64_t col) const {
    return data + row * row_stride + col * col_stride;
  }
};

// out (m x n) = a (m x k) b (k x n)
template <class T>
struct Product {
  Result<T> out;
  Matrix<T> a, b;
  int64_t m, n, k;

  // Some rows and columns of out.
  NEEDLE_INLINE Product part(int64_t row, int64_t rows, int64_t col, int64_t cols) const {
    Product some = *this;
    some.out.data = out.at(row, col);
    some.a.data = a.at(row, 0);
    some.b.data = b.at(0, col);
    some.m = rows;
    some.n = cols;
    return some;
  }

  // out' = b' a'
  NEEDLE_INLINE Product transposed() const {
    return {{out.data, out.col_stride, out.row_stride, out.store, out.is_plain},
            b.transposed(),
            a.transposed(),
            n,
            m,
            k};
  }

  // This, or transposed, whichever has rows of out along memory; they are plain only without gaps.
  NEEDLE_INLINE Product along_rows() const {
    Product p = length_of(out.row_stride) < length_of(out.col_stride) ? transposed() : *this;
    p.out.is_plain = p.out.is_plain && p.out.col_stride == sizeof(T);
    return p;
  }
};

// A product of floats by the kernel that is best for it; matmul.cc.
void multiply_floats(const Product<float>& p);

namespace {

// Chosen by GFLOP/s of one core, best of interleaved runs: with AVX2 on Zen 3, where multiply-adds
// in registers reach 101 (kDepth, kSmallMatrix and kFewUses first with AVX-512).
//
//     k per block: 2048 cubed 92, with 256 floats 89
//     of a B that is read in place, as its rows straddle lines: 100 x 784 x 100 82, with 384 79
//     and for few rows: 8 x 2048 x 2048 40, with 384 30; 32 x 2048 x 2048 50, with 256 62
template <class T>
constexpr int64_t kDepth = 1536 / sizeof(T);
template <class T>
constexpr int64_t kDepthInPlace = 1024 / sizeof(T);
constexpr int64_t kThinDepth = 24, kThinRows = kAccumulators;
//     a task's tile of C, and the elements of B packed at once: 2048 cubed 92, 384 x 2048 x 1536
//     (TN) 89; with 48 x 512 and all of B 77 and 66
constexpr int64_t kTileRows = 6 * kAccumulators, kTileCols = 1024, kTileColsApart = 256;
constexpr int64_t kMostPacked = int64_t{1} << 20;
//     rows that make so few tiles are one, which packs B itself: 128 x 640 x 10000 (TN) 81, with
//     two tiles 76; on two cores 155 and 122. Its rows stay together if that leaves half the tasks:
//     128 x 3072 x 768 (two cores) 156, cut 137
//     Tiles of a small B are cut by rows, since columns of two tiles share lines of C, which two
//     cores would write: 256 cubed (two cores, AVX-512) 208, by columns 185; 128 cubed 157 and 117;
//     100 x 50 x 100 with a bias 14 us, by columns 37
constexpr int64_t kFewTiles = 2;
constexpr int64_t kTaskWork = 1 << 20;  // multiplications worth a task, until there are kTasks,
constexpr int64_t kTasks = 16;
constexpr int64_t kWorkForTwo = 1 << 18;   // and those worth two
constexpr int64_t kSmallMatrix = 1 << 17;  // elements read in place,
constexpr int64_t kFewUses = 64;           // and for so few rows or cols; but for a B
//     whose rows, so many bytes apart, share few sets of the first-level cache: packed
//     640 x 128 x 512 92, 2048 x 65 x 1024 89; in place 77 and 69. The same for columns of A, of
//     which a block uses a part of a line: 128 x 640 x 512 (TN) 91, in place 83. Rows of A and C
//     may share one set, if a block has no more than its ways
constexpr int64_t kSharedSets = 2048, kSharedSetsOfA = 512, kSharedSet = 4096;
//     What tiles copy next is asked for while they multiply (one core, AVX-512): 128 x 640 x 10000
//     (TN) 104, without 96; 2048 cubed 102 and 94
//     elements of A beyond which it is not in the second-level cache, and of rows that are short
//     enough for the next ones to be asked for (two cores, AVX-512): 25088 x 256 x 64 200, without
//     158; 25088 x 256 x 32 196 and 134; but 256 x 25088 x 64 175 and 192
constexpr int64_t kFarMatrix = int64_t{1} << 18, kMostAhead = 1024;
//     elements of A that a prologue computes for a tile: half of a second-level cache of 1 MB
constexpr int64_t kMostComputed = int64_t{1} << 17;

// multiply_panels for rows of A that pack_rows has packed.
template <class T>
void multiply_packed_rows(const PanelSum<T>& sum, T* c, int64_t c_row, int64_t rows, int64_t cols,
                          bool accumulate, int64_t) {
  constexpr int64_t kWidth = block_cols<T>(kRows);
  Panels<T> panels = *sum.list;
  PanelSum<T> part = sum;
  part.list = &panels;
  for (int64_t j = 0; j < cols; j += kWidth, panels.a = sum.list->a) {
    const int64_t width = min_of(kWidth, cols - j);
    const BlockKernel<T> kernel = block_kernel<T>(kRows, width);
    int64_t i = 0;
    for (; i + kRows <= rows; i += kRows, panels.a += kRows * sum.depth) {
      kernel(part, 0, j, c + i * c_row + j, c_row, accumulate);
      part.ahead.next_block();
    }
    if (i == rows) continue;
    block_kernel<T>(rows - i, width)(part, 0, j, c + i * c_row + j, c_row, accumulate);
    part.ahead.next_block();
  }
}

template <class T>
class Gemm {
 public:
  // An epilogue is run on finished tiles; without a plain result it alone takes the sums. A
  // prologue computes A, which has no memory, when its rows are copied: once where that is done
  // before the tiles start, else for each tile of columns.
  explicit Gemm(const Product<T>& product, const Epilogue* epilogue = nullptr,
                const Prologue* prologue = nullptr)
      : p_(product), epilogue_(epilogue), prologue_(prologue) {
    const bool is_small_a = p_.m * p_.k <= kSmallMatrix || p_.n <= kFewUses;
    const bool shares_sets = p_.m > kFewUses && p_.b.row_stride % kSharedSets == 0;
    const bool is_small_b = p_.k * p_.n <= kSmallMatrix && !shares_sets;
    const bool has_plain_rows = p_.a.col_stride == kSize;
    const bool cols_share_sets = p_.n > kFewUses && p_.a.col_stride % kSharedSetsOfA == 0;
    reads_a_ = p_.a.source.is_plain && prologue_ == nullptr &&
               (has_plain_rows || (is_small_a && !cols_share_sets));
    reads_b_ = p_.b.source.is_plain && p_.b.col_stride == kSize && (is_small_b || p_.m <= kFewUses);
    most_rows_ = rows_of_blocks();
    height_ = even_part(p_.m, most_rows_);
    width_ = block_cols<T>(height_);
    has_rows_of_a_ = length_of(p_.a.col_stride) <= length_of(p_.a.row_stride);
    sums_in_out_ = p_.out.is_plain;
    cuts_rows_first_ = reads_b_ && is_small_b;
    asks_ahead_ = reads_a_ && has_plain_rows && p_.k <= kMostAhead && p_.m * p_.k > kFarMatrix;
    cut_tiles();
    packs_b_first_ = !reads_b_ && tile_rows_ < p_.m;
    const bool is_thin = reads_b_ && !is_small_b && p_.m <= kThinRows;
    depth_ = even_part(p_.k, is_thin ? kThinDepth : reads_b_ ? kDepthInPlace<T> : kDepth<T>);
  }

  void run() {
    cut_regions();
    const int64_t b_size = packs_b_first_ ? region_cols_ * region_depth_ : 0;
    const int64_t a_size = packs_a_first_ ? tiles_down_ * ceil_div(region_depth_, depth_of_a()) : 0;
    const Workspace packed((b_size + a_size * part_of_a()) * kSize);
    packed_b_ = packed.as<T>();
    packed_a_ = packed_b_ + b_size;
    for (col0_ = 0; col0_ < p_.n; col0_ += region_cols_) {
      cols_ = min_of(region_cols_, p_.n - col0_);
      for (k0_ = 0; k0_ < p_.k; k0_ += region_depth_) {
        span_ = min_of(region_depth_, p_.k - k0_);
        if (packs_b_first_ || packs_a_first_) pack();
        const int64_t across = tiles_across();
        parallel_for(tiles_down_ * across, 1, [&](int64_t begin, int64_t end) {
          for (int64_t t = begin; t < end; ++t) run_tile(t / across, t % across);
        });
      }
    }
  }

 private:
  static constexpr int64_t kSize = sizeof(T), kLine = 64 / kSize;

  // High blocks are better where vectors of B straddle lines, as they load them less often (100 x
  // 50 x 100 on two cores 6.4 us, with low blocks 7.0), and where little is packed, as threads
  // share out narrow panels (100 x 100 x 50, NT, 7.2 and 8.2).
  int64_t rows_of_blocks() const {
    const bool shares_set =
        p_.a.row_stride % kSharedSet == 0 || p_.out.row_stride % kSharedSet == 0;
    const bool straddles = reads_b_ && p_.b.row_stride % 64 != 0;
    const bool packs_little = !reads_b_ && p_.m * p_.n * p_.k < kTaskWork;
    if (shares_set) return kRows;
    return straddles || packs_little ? kMostRows : block_rows<T>(p_.n);
  }

  int64_t row_blocks() const { return ceil_div(p_.m, height_); }
  int64_t tiles_across() const { return ceil_div(cols_, tile_cols_); }

  // Where the i-th tile begins. All have as many blocks, give or take one: a short last one leaves
  // its thread without work (640 x 512 x 128 on two cores: 201 GFLOP/s, with even tiles 207).
  int64_t first_row(int64_t i) const {
    return min_of(p_.m, i * row_blocks() / tiles_down_ * height_);
  }
  int64_t first_col(int64_t i) const {
    return min_of(cols_, i * ceil_div(cols_, width_) / tiles_across() * width_);
  }

  // Columns of panels that are packed at once: some kRows lines of memory, which the blocks of all
  // but the first panel ask for.
  int64_t group() const { return max_of(2, kRows * kLine / width_) * width_; }

  // From a row of a panel to the next: whole vectors, none of which straddles lines.
  static int64_t pitch(int64_t cols) { return ceil_div(cols, kLanes<T>) * kLanes<T>; }

  // How much of k a tile copies of A's rows at once: a block; a prologue computes all of it, as
  // reading parts of rows from memory takes longer (32768 x 384 x 16, two cores, 5.7 ms; 3.8).
  int64_t depth_of_a() const { return prologue_ != nullptr ? region_depth_ : depth_; }

  // From one copied row to the next, so that they share no set.
  int64_t row_of_a() const {
    const int64_t depth = depth_of_a();
    return depth * kSize % kSharedSet == 0 ? depth + 64 / kSize : depth;
  }

  // Elements of A that a tile copies at once.
  int64_t part_of_a() const { return ceil_div(tile_rows_, kRows) * kRows * row_of_a(); }

  // Does a tile that packs B itself use it for all rows?
  bool has_all_rows() const { return !reads_b_ && tile_rows_ >= p_.m; }

  // Halves the longer side, or the rows, until there are tasks enough.
  void cut_tiles() {
    const int64_t work = p_.m * p_.n * p_.k;
    const int64_t tasks = max_of(work >= kWorkForTwo ? 2 : 1, min_of(kTasks, work / kTaskWork));
    const auto is_enough = [&](int64_t count) {
      const bool is_narrow = count > 1 && has_all_rows() && tile_cols_ <= width_;
      return count >= tasks || (is_narrow && 2 * count >= tasks);
    };
    int64_t most = p_.m <= kFewTiles * kTileRows ? p_.m : kTileRows;
    if (prologue_ != nullptr) most = min_of(most, max_of(height_, kMostComputed / p_.k));
    const bool has_whole_rows = epilogue_ != nullptr && epilogue_->has_rows();
    const int64_t widest = sums_in_out_ ? kTileCols : kTileColsApart;
    if (has_whole_rows) most = min_of(most, max_of(height_, kTileRows * widest / p_.n));
    cut_rows(ceil_div(p_.m, most));
    tile_cols_ = even_part(p_.n, has_whole_rows ? p_.n : widest, width_);
    while (!is_enough(tiles_down_ * ceil_div(p_.n, tile_cols_))) {
      const bool has_rows = tile_rows_ > height_;  // to be cut
      const bool has_cols = tile_cols_ > width_ && !has_whole_rows;
      if (!has_rows && !has_cols) return;
      const bool keeps_cols = cuts_rows_first_ && tile_rows_ >= 2 * height_;
      const bool is_wide = tile_cols_ > tile_rows_ || has_all_rows();
      if (has_cols && !keeps_cols && (is_wide || !has_rows)) {
        tile_cols_ = ceil_div(tile_cols_, 2 * width_) * width_;
      } else {
        cut_rows(2 * tiles_down_);
      }
    }
  }

  // Into so many tiles, or as many as there are blocks.
  void cut_rows(int64_t tiles) {
    tiles_down_ = min_of(tiles, row_blocks());
    tile_rows_ = ceil_div(row_blocks(), tiles_down_) * height_;
  }

  // All of B when it stays in cache; else some blocks of k, for all columns if they do. Tiles whose
  // sums are not kept in C go through all of k at once.
  void cut_regions() {
    region_cols_ = even_part(p_.n, p_.n, tile_cols_);
    region_depth_ = p_.k;
    if (packs_b_first_ && p_.k * p_.n > kMostPacked) {
      if (sums_in_out_) {
        const int64_t most = kMostPacked / region_cols_ / depth_ * depth_;
        region_depth_ = min_of(p_.k, max_of(depth_, most));
      }
      const int64_t most = max_of(1, kMostPacked / region_depth_ / tile_cols_) * tile_cols_;
      region_cols_ = min_of(region_cols_, even_part(p_.n, most, tile_cols_));
    }
    packs_a_first_ = !reads_a_ && tile_cols_ < region_cols_ && p_.m * region_depth_ <= kMostPacked;
  }

  // Panels of B, and parts of A.
  void pack() {
    const int64_t blocks = ceil_div(span_, depth_);
    const int64_t of_b = packs_b_first_ ? ceil_div(cols_, group()) * blocks : 0;
    const int64_t parts = packs_a_first_ ? ceil_div(span_, depth_of_a()) : 0;
    const int64_t of_a = tiles_down_ * parts;
    parallel_for(of_b + of_a, 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        if (t < of_b) {
          const int64_t j = t / blocks * group();
          pack_region(j, min_of(j + group(), cols_), t % blocks * depth_);
        } else {
          pack_part_of_a(t - of_b, parts);
        }
      }
    });
  }

  // The panels of columns [col, end) of the region, rows [k, k + depth) of its span: the g-th goes
  // to `to + g * step`. Rows that are rows in memory are read one by one.
  void pack_panels(T* to, int64_t step, int64_t col, int64_t end, int64_t k, int64_t depth) const {
    constexpr int64_t kWidth = block_cols<T>(kRows);
    if (p_.b.source.is_plain && p_.b.col_stride == kSize && width_ == kWidth) {
      const int64_t whole = (end - col) / kWidth;
      const char* from = p_.b.at(k0_ + k, col0_ + col);
      for (int64_t i = 0; i < depth; ++i, from += p_.b.row_stride) {
        prefetch(from + kLinesAhead * p_.b.row_stride, whole * kWidth * kSize);
        for (int64_t g = 0; g < whole; ++g) {
          __builtin_memcpy(to + g * step + i * kWidth, from + g * kWidth * kSize, kWidth * kSize);
        }
      }
      col += whole * kWidth;
      to += whole * step;
    }
    for (; col < end; col += width_, to += step) {
      const int64_t cols = min_of(width_, end - col);
      pack_panel(to, pitch(cols), p_.b, k0_ + k, depth, col0_ + col, cols);
    }
  }

  // A panel has all rows of the span; the last one may be narrower.
  void pack_region(int64_t col, int64_t end, int64_t k) {
    const int64_t depth = min_of(depth_, span_ - k), whole = col + (end - col) / width_ * width_;
    pack_panels(packed_b_ + col * span_ + k * width_, width_ * span_, col, whole, k, depth);
    const int64_t last = end - whole;
    if (last > 0) pack_panels(packed_b_ + whole * span_ + k * pitch(last), 0, whole, end, k, depth);
  }

  void pack_part_of_a(int64_t part, int64_t parts) {
    const int64_t tile = part / parts, row = first_row(tile), k = part % parts * depth_of_a();
    copy_rows_of_a(packed_a_ + part * part_of_a(), row, first_row(tile + 1) - row, k0_ + k,
                   min_of(depth_of_a(), span_ - k));
  }

  void run_tile(int64_t tile_row, int64_t tile_col) {
    const int64_t row = first_row(tile_row), col = first_col(tile_col);
    const int64_t rows = first_row(tile_row + 1) - row, cols = first_col(tile_col + 1) - col;
    const int64_t a_size = reads_a_ || packs_a_first_ ? 0 : part_of_a();
    const int64_t panel_cols = min_of(group(), ceil_div(cols, width_) * width_);
    const int64_t b_size = reads_b_ || packs_b_first_ ? 0 : depth_ * panel_cols;
    const int64_t sums = sums_in_out_ ? 0 : rows * cols;
    const Workspace workspace((a_size + b_size + sums) * kSize, kept_by_task);
    T* const copied_a = workspace.as<T>();
    T* const copied_b = copied_a + a_size;
    char* const out = p_.out.at(row, col0_ + col);
    T* const c = sums_in_out_ ? reinterpret_cast<T*>(out) : copied_b + b_size;
    const int64_t c_row = sums_in_out_ ? p_.out.row_stride / kSize : cols;
    for (int64_t k = k0_; k < k0_ + span_; k += depth_) {
      Panels<T> panels;
      PanelSum<T> sum = {&panels, 1, min_of(depth_, k0_ + span_ - k), 0, 0, 0};
      const T* const a = rows_of_a(copied_a, tile_row, row, rows, k, sum);
      for (int64_t j = 0; j < cols; j += width_) {
        const int64_t width = min_of(width_, cols - j);
        panels.a = a;
        if (b_size > 0 && j % group() == 0) {
          const int64_t end = col + min_of(j + group(), cols);
          pack_panels(copied_b, width_ * sum.depth, col + j, end, k - k0_, sum.depth);
        }
        panels.b = panel_of_b(copied_b + j % group() * sum.depth, col + j, width, k, sum);
        sum.ahead = j == 0       ? next_rows_of_a(row, rows, k, a_size > 0 && prologue_ == nullptr)
                    : b_size > 0 ? next_panels_of_b(rows, col, cols, j, k)
                                 : Ahead{};
        const auto multiply =
            reads_a_ || has_rows_of_a_ ? multiply_panels<T> : multiply_packed_rows<T>;
        multiply(sum, c + j, c_row, rows, width, k > 0, most_rows_);
      }
    }
    if constexpr (is_same<T, float>) {
      const bool is_finished = k0_ + span_ == p_.k;
      if (epilogue_ != nullptr && is_finished) {
        run_on_block(*epilogue_, c, c_row, row, rows, col0_ + col, cols);
      }
    }
    if (sums_in_out_ || epilogue_ != nullptr) return;
    for (int64_t i = 0; i < rows; ++i) {
      p_.out.store(out + i * p_.out.row_stride, p_.out.col_stride, c + i * cols, cols);
    }
  }

  // What blocks of the first panel ask for: rows of A that lie next, or that are copied for the
  // next block of k.
  Ahead next_rows_of_a(int64_t row, int64_t rows, int64_t k, bool is_copied) const {
    const int64_t height = even_part(rows, most_rows_), step = p_.a.row_stride;
    if (asks_ahead_) {
      row += height;
    } else if (is_copied && has_rows_of_a_ && k + depth_ < k0_ + span_) {
      k += depth_;
    } else {
      return {};
    }
    return {p_.a.at(row, k), step, 64, height * step, ceil_div(rows, height)};
  }

  // And those of the panel at `j` of others: rows of the panels of B that the tile packs next.
  Ahead next_panels_of_b(int64_t rows, int64_t col, int64_t cols, int64_t j, int64_t k) const {
    if (!p_.b.source.is_plain || p_.b.col_stride != kSize) return {};
    const int64_t panel = j % group() / width_ - 1, next = (j / group() + 1) * group();
    if (next >= cols) k += depth_;
    const int64_t blocks = ceil_div(rows, even_part(rows, most_rows_)),
                  share = ceil_div(depth_, kLine);
    const int64_t done = panel * blocks * share, left = min_of(depth_, k0_ + span_ - k) - done;
    if (panel < 0 || left <= 0) return {};
    const int64_t step = p_.b.row_stride, at = next < cols ? col + next : col;
    return {p_.b.at(k + done, col0_ + at), 64, step, share * step, ceil_div(left, share)};
  }

  // Where they lie; or copied, row after row if they are rows in memory, else kRows at a time.
  const T* rows_of_a(T* to, int64_t tile, int64_t row, int64_t rows, int64_t k, PanelSum<T>& sum) {
    if (reads_a_) {
      sum.a_row = p_.a.row_stride / kSize;
      sum.a_col = p_.a.col_stride / kSize;
      return reinterpret_cast<const T*>(p_.a.at(row, k));
    }
    const int64_t most = depth_of_a(), part = (k - k0_) / most, inside = (k - k0_) % most;
    const int64_t depth = min_of(most, span_ - part * most);
    sum.a_row = has_rows_of_a_ ? row_of_a() : 1;
    sum.a_col = has_rows_of_a_ ? 1 : kRows;
    if (packs_a_first_) {
      const int64_t parts = ceil_div(span_, most);
      return packed_a_ + (tile * parts + part) * part_of_a() + inside;
    }
    if (inside == 0) copy_rows_of_a(to, row, rows, k, depth);
    return to + inside;
  }

  void copy_rows_of_a(T* to, int64_t row, int64_t rows, int64_t k, int64_t depth) const {
    if constexpr (is_same<T, float>) {
      if (prologue_ != nullptr) {
        return compute_block(*prologue_, to, row_of_a(), row, rows, k, depth);
      }
    }
    const char* const from = p_.a.at(row, k);
    if (!has_rows_of_a_) return pack_rows(to, p_.a, from, rows, depth);
    for (int64_t i = 0; i < rows; ++i) {
      p_.a.source.load(to + i * row_of_a(), from + i * p_.a.row_stride, p_.a.col_stride, depth);
    }
  }

  const T* panel_of_b(const T* copied, int64_t col, int64_t cols, int64_t k0, PanelSum<T>& sum) {
    if (reads_b_) {
      sum.b_row = p_.b.row_stride / kSize;
      return reinterpret_cast<const T*>(p_.b.at(k0, col0_ + col));
    }
    sum.b_row = pitch(cols);
    return packs_b_first_ ? packed_b_ + col * span_ + (k0 - k0_) * sum.b_row : copied;
  }

  const Product<T> p_;
  const Epilogue* const epilogue_;
  const Prologue* const prologue_;
  int64_t depth_, height_, width_, most_rows_;  // of blocks
  int64_t tiles_down_, tile_rows_, tile_cols_;  // tiles have so many rows, or a block less
  bool reads_a_, reads_b_;                      // where they lie
  bool asks_ahead_;       // for rows of A, while a tile's first panel of B meets those before
  bool cuts_rows_first_;  // into tiles, then columns
  bool sums_in_out_;      // or in the tile's own memory, until they are finished
  bool packs_b_first_;    // the tiles share it,
  bool packs_a_first_;    // and this
  bool has_rows_of_a_;    // side by side, or columns
  T *packed_b_, *packed_a_;
  int64_t region_cols_, region_depth_;
  int64_t col0_, cols_, k0_, span_;  // the region at work
};

}  // namespace
}  // namespace needle::NEEDLE_ISA
