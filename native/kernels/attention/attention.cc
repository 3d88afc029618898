// Attention in tiles of scores, forward and backward: y = softmax(q kᵀ scale + mask) v.
//
// The softmax is mended on the way (Milakov & Gimelshein, 2018; Dao et al., 2022): the largest
// score so far is subtracted from all, and what was summed before is scaled when it grows. Backward
// makes the tiles again from the rows' logarithms of sums. Blocks of keys that no query of a block
// sees (causal) are not visited.
#include "attention_query.h"
#include "attention_tiles.h"

namespace needle::NEEDLE_ISA {
namespace {

// Forward ----------------------------------------------------------------------------------------

// The softmax of a block of queries, mended tile by tile.
template <class T>
struct RunningSoftmax {
  T highest[kQueries], total[kQueries], shrink[kQueries];

  RunningSoftmax() {
    for (int64_t i = 0; i < kQueries; ++i) highest[i] = Scores<T>::kNever, total[i] = 0;
  }

  // Scores become e^(s - level), which join the total; `shrink` is what earlier ones are worth.
  void take(T* tile, Span queries, int64_t keys) {
    for (int64_t i = queries.begin; i < queries.begin + queries.count; i += kLanes<T>) {
      T* const column = tile + i;
      const Vec<T> before = load(highest + i);
      Vec<T> most = before, sum = {};
      for (int64_t j = 0; j < keys; ++j) most = larger_of(load(column + j * kQueries), most);
      const Vec<T> level = level_of<T>(most), scale = exp_below_0(before - level);
      for (int64_t j = 0; j < keys; ++j) {
        const Vec<T> e = exp_below_0(load(column + j * kQueries) - level);
        store(column + j * kQueries, e);
        sum += e;
      }
      store(highest + i, most);
      store(shrink + i, scale);
      store(total + i, load(total + i) * scale + sum);
    }
  }
};

template <class T>
class Forward {
 public:
  Forward(const View& out, const View& log_sums, const AttentionInputs& in)
      : scores_(in), out_(out), log_sums_(log_sums), in_(in) {}

  void run() const {
    if (scores_.queries == 1) {
      return parallel_for(scores_.heads, 1, [&](int64_t begin, int64_t end) {
        for (int64_t head = begin; head < end; ++head) run_query(head);
      });
    }
    const int64_t blocks = ceil_div(scores_.queries, kQueries);
    parallel_for(scores_.heads * blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) run_block(b / blocks, b % blocks * kQueries);
    });
  }

 private:
  void run_block(int64_t head, int64_t first) const {
    const int64_t size = scores_.size, width = scores_.width;
    const Span block = {first, min_of(kQueries, scores_.queries - first)};
    const Workspace workspace(
        (size * (kQueries + kKeys) + width * (kQueries + kKeys) + kQueries * kKeys) *
            static_cast<int64_t>(sizeof(T)),
        kept_by_task);
    T* const turned_q = workspace.as<T>();
    T* const tile = turned_q + size * kQueries;
    T* const sums = tile + kQueries * kKeys;
    T* const k_copy = sums + kQueries * width;
    T* const v_copy = k_copy + kKeys * size;
    const Rows<T> q = rows_of<T>(*in_.q, head), k = rows_of<T>(*in_.k, head);
    const Rows<T> v = rows_of<T>(*in_.v, head), mask = scores_.mask_of(head);
    turn(turned_q, q.read(block, size, k_copy), block.count, size, scores_.scale);

    RunningSoftmax<T> softmax;
    __builtin_memset(sums, 0, block.count * width * sizeof(T));
    const int64_t seen = scores_.seen_by(block);
    for (int64_t start = 0; start < seen; start += kKeys) {
      const Span columns = {start, min_of(kKeys, seen - start)};
      scores_.make_tile(tile, k.read(columns, size, k_copy), turned_q, mask, block, columns);
      scores_.for_query_stripes(
          block, columns, [&](Span queries, int64_t keys) { softmax.take(tile, queries, keys); });
      for (int64_t i = 0; start > 0 && i < block.count; ++i) {
        if (softmax.shrink[i] == 1) continue;
        for (int64_t x = 0; x < width; ++x) sums[i * width + x] *= softmax.shrink[i];
      }
      scores_.add_to_queries(sums, tile, v.read(columns, width, v_copy), width, block, columns);
    }
    finish(head, block, softmax, sums);
  }

  void run_query(int64_t head) const {
    const OneQuery<T> query(scores_, in_, head);
    const auto [y, highest, total] = query.run();
    T log_sum = (highest == Scores<T>::kNever ? T(0) : highest) + log(total);
    target_of<T>(out_, head).write({0, 1}, scores_.width, y, total == 0 ? T(0) : 1 / total);
    target_of<T>(log_sums_, head).write({0, 1}, 1, &log_sum, T(1));
  }

  void finish(int64_t head, Span block, const RunningSoftmax<T>& softmax, T* sums) const {
    const int64_t width = scores_.width;
    T logs[kQueries];
    for (int64_t i = 0; i < kQueries; i += kLanes<T>) {
      store(logs + i, level_of<T>(load(softmax.highest + i)));
    }
    for (int64_t i = 0; i < block.count; ++i) {
      const T total = softmax.total[i];
      logs[i] += log(total);
      const T share = total == 0 ? T(0) : 1 / total;
      for (int64_t x = 0; x < width; ++x) sums[i * width + x] *= share;
    }
    target_of<T>(out_, head).write(block, width, sums, T(1));
    target_of<T>(log_sums_, head).write(block, 1, logs, T(1));
  }

  const Scores<T> scores_;
  const View &out_, &log_sums_;
  const AttentionInputs& in_;
};

// Backward ---------------------------------------------------------------------------------------

template <class T>
class Backward {
 public:
  Backward(const AttentionOutputs& out, const AttentionInputs& in, const AttentionAdjoints& given)
      : scores_(in), out_(out), in_(in), given_(given) {
    // A task is a head. Few heads are cut into chunks of queries, which sum dk and dv apart.
    constexpr int64_t kTasks = 8;
    const int64_t blocks = ceil_div(scores_.queries, kQueries);
    const int64_t chunks = ceil_div(kTasks, max_of(1, scores_.heads));
    chunk_blocks_ = max_of(1, ceil_div(blocks, chunks));
    chunks_ = max_of(1, ceil_div(blocks, chunk_blocks_));
    sums_size_ = scores_.keys * (scores_.size + scores_.width);
  }

  void run() {
    const int64_t tasks = scores_.heads * chunks_;
    const Workspace workspace(tasks * sums_size_ * (chunks_ > 1) * kSize);
    all_sums_ = chunks_ > 1 ? workspace.as<T>() : nullptr;
    parallel_for(tasks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) run_chunk(t / chunks_, t % chunks_);
    });
    if (chunks_ == 1) return;
    parallel_for(scores_.heads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t head = begin; head < end; ++head) combine(head);
    });
  }

 private:
  static constexpr int64_t kSize = sizeof(T);

  // Memory of one task.
  struct Buffers {
    T *turned_q, *turned_g, *tile, *adjoint, *dq, *k, *v, *q, *g;
  };

  void run_chunk(int64_t head, int64_t chunk) const {
    const int64_t size = scores_.size, width = scores_.width;
    const int64_t own_sums = all_sums_ == nullptr ? sums_size_ : 0;
    const int64_t tiles = 2 * kQueries * kKeys;
    const int64_t rows = (3 * kQueries + kKeys) * size + (2 * kQueries + kKeys) * width;
    const Workspace workspace((own_sums + tiles + rows) * kSize, kept_by_task);
    T* const sums = all_sums_ == nullptr ? workspace.as<T>()
                                         : all_sums_ + (head * chunks_ + chunk) * sums_size_;
    __builtin_memset(sums, 0, sums_size_ * kSize);
    T* at = workspace.as<T>() + own_sums;
    const auto take = [&](int64_t count) { return at += count, at - count; };
    const Buffers buffers = {take(kQueries * size), take(kQueries * width), take(tiles / 2),
                             take(tiles / 2),       take(kQueries * size),  take(kKeys * size),
                             take(kKeys * width),   take(kQueries * size),  take(kQueries * width)};
    const int64_t begin = chunk * chunk_blocks_ * kQueries;
    const int64_t end = min_of(scores_.queries, begin + chunk_blocks_ * kQueries);
    for (int64_t i = begin; i < end; i += kQueries) {
      check_interrupt();
      run_block(head, {i, min_of(kQueries, end - i)}, buffers, sums);
    }
    if (chunks_ == 1) store_sums(head, sums);
  }

  void run_block(int64_t head, Span block, const Buffers& buffers, T* sums) const {
    const int64_t size = scores_.size, width = scores_.width;
    const Rows<T> k_rows = rows_of<T>(*in_.k, head), v_rows = rows_of<T>(*in_.v, head);
    const Rows<T> mask = scores_.mask_of(head);
    const Panel<T> q = rows_of<T>(*in_.q, head).read(block, size, buffers.q);
    const Panel<T> g = rows_of<T>(*given_.g, head).read(block, width, buffers.g);
    turn(buffers.turned_q, q, block.count, size, scores_.scale);
    turn(buffers.turned_g, g, block.count, width, T(1));
    T level[kQueries] = {}, shift[kQueries] = {};
    read_levels(head, block, buffers, level, shift);
    __builtin_memset(buffers.dq, 0, block.count * size * kSize);

    T *const tile = buffers.tile, *const adjoint = buffers.adjoint;
    T *const dk = sums, *const dv = sums + scores_.keys * size;
    const int64_t seen = scores_.seen_by(block);
    for (int64_t start = 0; start < seen; start += kKeys) {
      const Span columns = {start, min_of(kKeys, seen - start)};
      const Panel<T> k = k_rows.read(columns, size, buffers.k);
      const Panel<T> v = v_rows.read(columns, width, buffers.v);
      scores_.make_tile(tile, k, buffers.turned_q, mask, block, columns);
      if (out_.ds != nullptr) __builtin_memset(adjoint, 0, kQueries * kKeys * kSize);
      scores_.multiply_turned(adjoint, v, buffers.turned_g, width, block, columns);
      scores_.for_query_stripes(block, columns, [&](Span queries, int64_t count) {
        differentiate(tile, adjoint, queries, count, level, shift);
      });
      scores_.add_to_keys(dv + start * width, tile, g, width, block, columns);
      scores_.add_to_keys(dk + start * size, adjoint, q, size, block, columns);
      scores_.add_to_queries(buffers.dq, adjoint, k, size, block, columns);
      if (out_.ds != nullptr) store_scores(head, block, columns, adjoint);
    }
    target_of<T>(*out_.dq, head).write(block, size, buffers.dq, scores_.scale);
    if (out_.ds != nullptr && seen < scores_.keys) clear_scores(head, block, seen);
  }

  // Scores and adjoints of p become p = e^(s - l) and ds = p (dp - shift).
  static void differentiate(T* tile, T* adjoint, Span queries, int64_t keys, const T* level,
                            const T* shift) {
    for (int64_t i = queries.begin; i < queries.begin + queries.count; i += kLanes<T>) {
      const Vec<T> l = load(level + i), d = load(shift + i);
      for (int64_t at = i; at < keys * kQueries; at += kQueries) {
        const Vec<T> p = exp_below_0(load(tile + at) - l);
        store(tile + at, p);
        store(adjoint + at, p * (load(adjoint + at) - d));
      }
    }
  }

  // l, and Σ g y - dl, for each query. Works in the memory that values are copied to later.
  void read_levels(int64_t head, Span block, const Buffers& buffers, T* level, T* shift) const {
    const int64_t width = scores_.width;
    const Rows<T> logs = rows_of<T>(*given_.log_sums, head),
                  g_log = rows_of<T>(*given_.g_log, head);
    logs.source.load(level, logs.data + block.begin * logs.row, logs.row, block.count);
    g_log.source.load(shift, g_log.data + block.begin * g_log.row, g_log.row, block.count);
    static_assert(kKeys >= 2 * kQueries);
    T* const turned_y = buffers.v + kQueries * width;
    turn(turned_y, rows_of<T>(*given_.y, head).read(block, width, buffers.v), block.count, width,
         T(1));
    for (int64_t i = 0; i < kQueries; i += kLanes<T>) {
      Vec<T> sum = -load(shift + i);
      for (int64_t x = i; x < width * kQueries; x += kQueries) {
        sum = multiply_add(load(buffers.turned_g + x), load(turned_y + x), sum);
      }
      store(shift + i, sum);
      store(level + i, level_of<T>(load(level + i)));
    }
  }

  void store_scores(int64_t head, Span block, Span columns, const T* adjoint) const {
    const Target<T> ds = target_of<T>(*out_.ds, head);
    for (int64_t j = 0; j < columns.count; ++j) {
      char* const to = ds.data + block.begin * ds.row + (columns.begin + j) * ds.col;
      ds.store(to, ds.row, adjoint + j * kQueries, block.count);
    }
  }

  // Keys that no query of the block sees.
  void clear_scores(int64_t head, Span block, int64_t seen) const {
    const T zeros[kQueries] = {};
    for (int64_t j = seen; j < scores_.keys; ++j) store_scores(head, block, {j, 1}, zeros);
  }

  void combine(int64_t head) const {
    T* const total = all_sums_ + head * chunks_ * sums_size_;
    for (int64_t c = 1; c < chunks_; ++c) {
      const T* const part = total + c * sums_size_;
      for (int64_t x = 0; x < sums_size_; ++x) total[x] += part[x];
    }
    store_sums(head, total);
  }

  void store_sums(int64_t head, T* sums) const {
    const Span all = {0, scores_.keys};
    target_of<T>(*out_.dk, head).write(all, scores_.size, sums, scores_.scale);
    target_of<T>(*out_.dv, head)
        .write(all, scores_.width, sums + scores_.keys * scores_.size, T(1));
  }

  const Scores<T> scores_;
  const AttentionOutputs& out_;
  const AttentionInputs& in_;
  const AttentionAdjoints& given_;
  int64_t chunk_blocks_, chunks_, sums_size_;
  T* all_sums_ = nullptr;
};

}  // namespace

void attention(const View& out, const View& log_sums, const AttentionInputs& in) {
  if (log_sums.dtype == DType::f64) return Forward<double>(out, log_sums, in).run();
  Forward<float>(out, log_sums, in).run();
}

void attention_backward(const AttentionOutputs& out, const AttentionInputs& in,
                        const AttentionAdjoints& given) {
  if (given.log_sums->dtype == DType::f64) return Backward<double>(out, in, given).run();
  Backward<float>(out, in, given).run();
}

}  // namespace needle::NEEDLE_ISA
