// Convolution and its adjoint in the data as batch-reduce GEMM: each tap of the filter is a panel.
//
// A row of the product is one output position of one image, a column an output channel, and the sum
// runs over the taps and, inside, over input channels. Filters are packed once, into panels of
// columns. A task takes some images and a rectangle of outputs. It copies the inputs that these see
// into a tile in the second-level cache, padded with zeros, images innermost: (H, W, n, C). There
// neighbouring rows lie evenly spaced, also across short lines: a block of rows is the same
// position in several images when lines are short, and several positions of one image when they
// are long. Taps that see nothing but padding from a whole block of images, or from a line, are
// left out of the sum. An epilogue runs on the outputs of a task when all of its channels are done.
#pragma once

#include "conv.h"

namespace needle::NEEDLE_ISA {
namespace {

template <class T>
class TapConv {
 public:
  // in and filter start at the group's first channel; `groups` of them follow `in_channels` and
  // `out_channels` apart. An epilogue's rows are the outputs' positions, which lie evenly spaced.
  TapConv(Image<T> out, Image<const T> in, Filter<const T> filter, const TapAxis (&axes)[kSpace],
          int64_t groups, const Epilogue* epilogue = nullptr)
      : out_(out), in_(in), filter_(filter), groups_(groups), epilogue_(epilogue) {
    for (int d = 0; d < kSpace; ++d) axes_[d] = axes[d];
    in_channels_ = in.channels / groups;
    unrolls_ = Unrolling::is_worth_it(axes[2], in.channels, groups);
    if (unrolls_) {
      unrolling_ = Unrolling(axes[2], in.channels);
      axes_[2] = unrolling_.axis();
      in_channels_ = unrolling_.channels();
    } else {
      merge_points(axes_, in_, out_);
    }
    out_channels_ = out.channels / groups;
    panels_ = ceil_div(out_channels_, kWidth);
  }

  void run() {
    constexpr int64_t kTapWords = sizeof(Tap) / 8;
    int64_t entries = 0;
    for (const TapAxis& axis : axes_) entries += axis.taps * kTapWords + axis.phases() + 1;
    taps_ = count_taps(axes_);
    const int64_t packed = groups_ * panels_ * panel_size();
    const Workspace workspace(packed * kSize + entries * 8);
    packed_ = workspace.template as<T>();
    int64_t* room = reinterpret_cast<int64_t*>(packed_ + packed);
    for (int d = 0; d < kSpace; ++d) {
      Tap* const taps = reinterpret_cast<Tap*>(room);
      table_[d].fill(axes_[d], taps, room + kTapWords * axes_[d].taps);
      room += kTapWords * axes_[d].taps + axes_[d].phases() + 1;
    }
    plan();
    pack_filter();
    parallel_for(tasks_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) run_task(task);
    });
  }

 private:
  static constexpr int64_t kSize = sizeof(T);
  static constexpr int64_t kWidth = block_cols<T>(kRows);  // columns of a panel
  static constexpr int64_t kTileBytes = 1 << 18;           // a half of the second-level cache
  static constexpr int64_t kTasks = 16;                    // so many, if there is enough work:
  static constexpr int64_t kTaskWork = 1 << 20;            // multiplications worth a task
  static constexpr int64_t kPackedRows = 16;               // of a panel, packed by one task
  static constexpr int64_t kPageBytes = 4096;              // rows so far apart share a cache set

  // Where a task's inputs are: a tile in the workspace, or the image itself.
  struct Tile {
    const T* data;
    int64_t step[kSpace];    // along depth and height; along width, from output to output
    int64_t remainder_step;  // between the inputs that lie between those of two outputs
    int64_t row;             // from row to row of the product
  };

  // A task's outputs: images and positions [first, last), counted inside a phase.
  struct Part {
    int64_t group, image, images, first[kSpace], last[kSpace], panel, last_panel;
  };

  int64_t panel_size() const { return taps_ * in_channels_ * kWidth; }

  // How many inputs along an axis `outputs` neighbours (of all phases) see.
  int64_t extent(int d, int64_t outputs) const {
    return (outputs - 1) * axes_[d].in_step() + table_[d].highest - table_[d].lowest + 1;
  }

  // Inputs of one remainder along the width.
  int64_t line(int64_t outputs) const {
    return outputs + (table_[2].highest - table_[2].lowest) / axes_[2].in_step();
  }

  int64_t tile_size(const int64_t (&outputs)[kSpace]) const {
    const int64_t lines = extent(0, outputs[0]) * extent(1, outputs[1]);
    if (unrolls_) return lines * unrolling_.line(outputs[2]);
    return lines * line(outputs[2]) * axes_[2].in_step() * images_ * pitch_;
  }

  void plan() {
    for (int d = 0; d < kSpace; ++d) part_[d] = axes_[d].count(0);
    const bool has_long_lines = part_[2] >= 2 * kMostRows || in_.batch == 1 || unrolls_;
    images_ = has_long_lines ? 1 : even_part(in_.batch, block_rows<T>(out_channels_));
    const int64_t in_step = axes_[2].in_step(), row = in_step * in_.step[2] * kSize;
    const bool is_padded =
        table_[2].lowest < 0 || table_[2].highest + (part_[2] - 1) * in_step >= axes_[2].in;
    is_in_place_ = images_ == 1 && !is_padded && !unrolls_ && row % kPageBytes != 0;
    asks_ahead_ = is_in_place_ && taps_ == 1 && in_channels_ <= kMostAhead &&
                  in_.batch * axes_[0].in * axes_[1].in * axes_[2].in * in_channels_ > kFarMatrix;
    // Rows of a whole number of pages would share a cache set: keep them a line apart.
    pitch_ = in_channels_ + (in_channels_ * kSize % 1024 == 0 ? 64 / kSize : 0);
    part_[0] = 1;
    part_panels_ = panels_;
    const auto cut = [&](int d) { part_[d] = ceil_div(part_[d], 2); };
    while (tile_size(part_) * kSize > kTileBytes && part_[1] > 1) --part_[1];
    part_[1] = even_part(axes_[1].count(0), part_[1]);
    while (tile_size(part_) * kSize > kTileBytes && part_[2] > 2 * kMostRows) cut(2);
    const int64_t outputs = out_.batch * axes_[0].out * axes_[1].out * axes_[2].out;
    const int64_t work = outputs * out_.channels * in_channels_ * taps_;
    const int64_t wanted = min_of(kTasks, work / kTaskWork);
    while (count_tasks() < wanted && part_[1] > 1) cut(1);
    while (count_tasks() < wanted && part_[2] > 2 * kMostRows) cut(2);
    if (count_tasks() < wanted) {
      part_panels_ = ceil_div(panels_, ceil_div(wanted, count_tasks()));
    }
    tasks_ = count_tasks();
  }

  int64_t count_tasks() {
    int64_t n = groups_ * ceil_div(in_.batch, images_);
    for (int d = 0; d < kSpace; ++d) {
      parts_[d] = ceil_div(axes_[d].count(0), part_[d]);
      n *= parts_[d];
    }
    panel_parts_ = ceil_div(panels_, part_panels_);
    return n * panel_parts_;
  }

  // (groups, panels, taps, in_channels, kWidth), the taps that are used
  void pack_filter() {
    const bool by_tap = filter_.out_step == 1 || filter_.in_step == 1;
    const int64_t units = by_tap ? taps_ : ceil_div(in_channels_, kPackedRows);
    const int64_t grain = max_of(1, (1 << 15) * units / max_of(1, panel_size()));
    parallel_for(groups_ * panels_ * units, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        by_tap ? pack_tap(i / units, i % units) : pack_rows(i / units, i % units * kPackedRows);
      }
    });
  }

  // Where a tap of the filter starts, or nullptr if it is not used.
  const T* tap_at(int64_t tap) const {
    const int64_t w = tap % axes_[2].taps, rest = tap / axes_[2].taps;
    const int64_t h = rest % axes_[1].taps, d = rest / axes_[1].taps;
    if (!table_[0].has(d) || !table_[1].has(h) || !table_[2].has(w)) return nullptr;
    return filter_.tap(d, h, w);
  }

  int64_t panel_offset(int64_t panel) const {
    return panel / panels_ * group_step() + panel % panels_ * kWidth * filter_.out_step;
  }

  int64_t panel_cols(int64_t panel) const {
    return min_of(kWidth, out_channels_ - panel % panels_ * kWidth);
  }

  void pack_tap(int64_t panel, int64_t tap) {
    const T* from = tap_at(tap);
    if (from == nullptr) return;
    from += panel_offset(panel);
    const int64_t cols = panel_cols(panel);
    T* const to = packed_ + (panel * taps_ + tap) * in_channels_ * kWidth;
    if (filter_.out_step == 1) {
      for (int64_t c = 0; c < in_channels_; ++c) {
        __builtin_memcpy(to + c * kWidth, from + c * filter_.in_step, cols * kSize);
      }
    } else {
      transpose(to, kWidth, reinterpret_cast<const char*>(from), filter_.out_step * kSize, cols,
                in_channels_);
    }
  }

  // Some rows of all taps at a time: in (O, C, K...) memory, a cache line holds several taps.
  void pack_rows(int64_t panel, int64_t row) {
    const int64_t cols = panel_cols(panel), end = min_of(in_channels_, row + kPackedRows);
    for (int64_t c = row; c < end; ++c) {
      for (int64_t tap = 0; tap < taps_; ++tap) {
        const T* from = tap_at(tap);
        if (from == nullptr) continue;
        from += panel_offset(panel) + c * filter_.in_step;
        T* const to = packed_ + ((panel * taps_ + tap) * in_channels_ + c) * kWidth;
        for (int64_t j = 0; j < cols; ++j) to[j] = from[j * filter_.out_step];
      }
    }
  }

  // Groups share out the filter's last axis: the output channels, or the adjoint's input channels.
  int64_t group_step() const {
    return axes_[2].is_adjoint ? in_channels_ * filter_.in_step : out_channels_ * filter_.out_step;
  }

  Part part_of(int64_t task) const {
    Part part;
    part.panel = task % panel_parts_ * part_panels_;
    part.last_panel = min_of(panels_, part.panel + part_panels_);
    task /= panel_parts_;
    for (int d = kSpace - 1; d >= 0; --d) {
      part.first[d] = task % parts_[d] * part_[d];
      part.last[d] = min_of(axes_[d].count(0), part.first[d] + part_[d]);
      task /= parts_[d];
    }
    const int64_t batches = ceil_div(in_.batch, images_);
    part.image = task % batches * images_;
    part.images = min_of(images_, in_.batch - part.image);
    part.group = task / batches;
    return part;
  }

  void run_task(int64_t task) {
    const Part part = part_of(task);
    const Workspace workspace(list_bytes() + (is_in_place_ ? 0 : tile_size(part_) * kSize),
                              kept_tile);
    Panels<T>* const list = workspace.template as<Panels<T>>();
    T* const room = reinterpret_cast<T*>(reinterpret_cast<char*>(list) + list_bytes());
    const Tile tile = is_in_place_ ? tile_in_place(part) : packed_tile(part, room);
    for (int64_t panel = part.panel; panel < part.last_panel; ++panel) {
      for_each_phase(
          [&](const int64_t (&phase)[kSpace]) { run_phase(part, tile, panel, phase, list); });
    }
    if constexpr (is_same<T, float>) {
      if (epilogue_ != nullptr) finish(part);
    }
  }

  // The epilogue on a part's outputs; whole lines, and whole images, lie side by side.
  void finish(const Part& part) const {
    const int64_t first = part.panel * kWidth,
                  last = min_of(part.last_panel * kWidth, out_channels_);
    const int64_t col = part.group * out_channels_ + first, step = out_.step[2];
    const int64_t height = part.last[1] - part.first[1], width = part.last[2] - part.first[2];
    const int64_t lines = width == axes_[2].out ? height : 1;
    const bool is_whole = lines == axes_[1].out && axes_[0].out == 1;
    const int64_t images = is_whole ? part.images : 1, rows = images * lines * width;
    for (int64_t i = part.image; i < part.image + part.images; i += images) {
      for (int64_t d = part.first[0]; d < part.last[0]; ++d) {
        for (int64_t h = part.first[1]; h < part.last[1]; h += lines) {
          const int64_t at =
              i * out_.batch_step + d * out_.step[0] + h * out_.step[1] + part.first[2] * step;
          run_on_block(*epilogue_, out_.data + at + col, step, at / step, rows, col, last - first);
        }
      }
    }
  }

  int64_t list_bytes() const {
    return ceil_div(taps_ * static_cast<int64_t>(sizeof(Panels<T>)), 64) * 64;
  }

  template <class F>
  void for_each_phase(F&& body) const {
    for (int64_t d = 0; d < axes_[0].phases(); ++d) {
      for (int64_t h = 0; h < axes_[1].phases(); ++h) {
        for (int64_t w = 0; w < axes_[2].phases(); ++w) body({d, h, w});
      }
    }
  }

  // The input that the first output of a part sees through the lowest tap.
  int64_t base(const Part& part, int d) const {
    return part.first[d] * axes_[d].in_step() + table_[d].lowest;
  }

  Tile tile_in_place(const Part& part) const {
    const T* data = in_.data + part.group * in_channels_ + part.image * in_.batch_step;
    for (int d = 0; d < kSpace; ++d) data += base(part, d) * in_.step[d];
    const int64_t along = axes_[2].in_step() * in_.step[2];
    return {data, {in_.step[0], in_.step[1], along}, in_.step[2], along};
  }

  Tile packed_tile(const Part& part, T* room) const {
    const int64_t outputs = part.last[2] - part.first[2], width = line(outputs);
    const int64_t along = part.images * pitch_, height = extent(1, part.last[1] - part.first[1]);
    Tile tile = {room, {0, axes_[2].in_step() * width * along, along}, width * along, pitch_};
    if (unrolls_) tile = {room, {0, unrolling_.line(outputs), 0}, 0, unrolling_.step()};
    tile.step[0] = height * tile.step[1];
    for (int64_t d = 0; d < extent(0, part.last[0] - part.first[0]); ++d) {
      for (int64_t h = 0; h < height; ++h) {
        if (!is_seen(0, d, base(part, 0)) || !is_seen(1, h, base(part, 1))) continue;
        const T* const from = in_.data + part.group * in_channels_ + part.image * in_.batch_step +
                              (base(part, 0) + d) * in_.step[0] + (base(part, 1) + h) * in_.step[1];
        T* const to = room + d * tile.step[0] + h * tile.step[1];
        if (unrolls_) {
          unrolling_.copy_line(to, from, in_.step[2], part.first[2], outputs);
        } else {
          pack_line(to, from, base(part, 2), width, part.images);
        }
      }
    }
    return tile;
  }

  bool is_seen(int d, int64_t offset, int64_t base) const {
    if (base + offset < 0 || base + offset >= axes_[d].in) return false;
    return table_[d].sees(offset % axes_[d].in_step());
  }

  // (in_step, width, images, pitch): inputs base, base + in_step, ... of a line, then those after
  // base + 1, and so on, if a tap sees them
  void pack_line(T* to, const T* from, int64_t base, int64_t width, int64_t images) const {
    const int64_t in_step = axes_[2].in_step(), size = images * pitch_;
    for (int64_t i = 0; i < in_step * width; ++i, to += size) {
      const int64_t remainder = i / width, place = base + remainder + i % width * in_step;
      if (!table_[2].sees(remainder)) continue;
      if (place < 0 || place >= axes_[2].in) {
        __builtin_memset(to, 0, size * kSize);
        continue;
      }
      const T* const source = from + place * in_.step[2];
      for (int64_t n = 0; n < images; ++n) {
        copy_run(to + n * pitch_, source + n * in_.batch_step, in_channels_);
      }
    }
  }

  void run_phase(const Part& part, const Tile& tile, int64_t panel, const int64_t (&phase)[kSpace],
                 Panels<T>* list) const {
    int64_t last[kSpace];
    for (int d = 0; d < kSpace; ++d) last[d] = min_of(part.last[d], axes_[d].count(phase[d]));
    const int64_t rows = (last[2] - part.first[2]) * part.images;
    if (rows <= 0) return;
    const int64_t col = panel * kWidth, cols = min_of(kWidth, out_channels_ - col);
    const int64_t most_rows = block_rows<T>(out_channels_);
    const bool by_position = part.images > most_rows / 2;  // blocks of rows are one position
    const Cuts cuts(rows, by_position ? part.images : most_rows);
    const BlockKernel<T> longer = block_kernel<T>(cuts.length(0), cols);
    const BlockKernel<T> shorter = block_kernel<T>(cuts.size, cols);
    const T* const b = packed_ + (part.group * panels_ + panel) * panel_size();
    for (int64_t d = part.first[0]; d < last[0]; ++d) {
      for (int64_t h = part.first[1]; h < last[1]; ++h) {
        T* const line = out_.data + part.group * out_channels_ + col +
                        part.image * out_.batch_step + position(0, phase[0], d) +
                        position(1, phase[1], h) + position(2, phase[2], part.first[2]);
        PanelSum<T> sum = {list, 0, in_channels_, tile.row, 1, kWidth};
        if (part.images == 1) sum.count = list_taps(part, tile, b, phase, {d, h}, 0, rows, list);
        for (int64_t i = 0; i < cuts.count; ++i) {
          const int64_t row = cuts.start(i), n = cuts.length(i);
          if (part.images > 1) sum.count = list_taps(part, tile, b, phase, {d, h}, row, n, list);
          if (asks_ahead_ && panel == part.panel && sum.count > 0) {
            const T* const next = list->a + (row + n) * tile.row;
            sum.ahead = {reinterpret_cast<const char*>(next), tile.row * kSize, 64};
          }
          run_block(i < cuts.longer ? longer : shorter, sum, line, row, n, cols, part.images);
        }
      }
    }
  }

  int64_t position(int d, int64_t phase, int64_t j) const {
    return (phase + j * axes_[d].out_step()) * out_.step[d];
  }

  // The panels that rows [row, row + n) of a line sum up.
  int64_t list_taps(const Part& part, const Tile& tile, const T* b, const int64_t (&phase)[kSpace],
                    const int64_t (&at)[2], int64_t row, int64_t n, Panels<T>* list) const {
    const int64_t in_step = axes_[2].in_step();
    const int64_t first_place = part.images == 1 ? row : row / part.images;
    const int64_t last_place = part.images == 1 ? row + n - 1 : (row + n - 1) / part.images;
    const int64_t first = (part.first[2] + first_place) * in_step;
    const int64_t last = (part.first[2] + last_place) * in_step;
    int64_t count = 0;
    for (const Tap* kd = table_[0].begin(phase[0]); kd != table_[0].end(phase[0]); ++kd) {
      const int64_t d = at[0] * axes_[0].in_step() + kd->shift;
      if (d < 0 || d >= axes_[0].in) continue;
      for (const Tap* kh = table_[1].begin(phase[1]); kh != table_[1].end(phase[1]); ++kh) {
        const int64_t h = at[1] * axes_[1].in_step() + kh->shift;
        if (h < 0 || h >= axes_[1].in) continue;
        const T* const a =
            tile.data + (d - base(part, 0)) * tile.step[0] + (h - base(part, 1)) * tile.step[1];
        const int64_t line = (kd->place * axes_[1].taps + kh->place) * axes_[2].taps;
        for (const Tap* kw = table_[2].begin(phase[2]); kw != table_[2].end(phase[2]); ++kw) {
          if (last + kw->shift < 0 || first + kw->shift >= axes_[2].in) continue;
          list[count].a = a + kw->remainder * tile.remainder_step + kw->index * tile.step[2];
          list[count++].b = b + (line + kw->place) * in_channels_ * kWidth;
        }
      }
    }
    return count;
  }

  // Rows of one image, or of one position, lie evenly spaced in the output; others do not.
  void run_block(const BlockKernel<T>& kernel, const PanelSum<T>& sum, T* line, int64_t row,
                 int64_t n, int64_t cols, int64_t images) const {
    const int64_t along = axes_[2].out_step() * out_.step[2];
    if (images == 1) return kernel(sum, row, 0, line + row * along, along, false);
    const auto place = [&](int64_t i) {
      return line + i / images * along + i % images * out_.batch_step;
    };
    if (row / images == (row + n - 1) / images) {
      return kernel(sum, row, 0, place(row), out_.batch_step, false);
    }
    alignas(64) T block[kMostRows * kWidth];
    kernel(sum, row, 0, block, kWidth, false);
    for (int64_t i = 0; i < n; ++i) {
      __builtin_memcpy(place(row + i), block + i * kWidth, cols * kSize);
    }
  }

  Image<T> out_;
  Image<const T> in_;
  Filter<const T> filter_;
  TapAxis axes_[kSpace];
  TapTable table_[kSpace];
  int64_t groups_, in_channels_, out_channels_, panels_, taps_;
  const Epilogue* epilogue_;
  int64_t images_, pitch_;  // images side by side in a tile; from one's channels to the next one's
  int64_t part_[kSpace], part_panels_;  // a task's outputs along each axis, and panels
  int64_t parts_[kSpace], panel_parts_, tasks_;
  bool is_in_place_, unrolls_;
  bool asks_ahead_;  // for the inputs that come next, as a product does
  Unrolling unrolling_;
  T* packed_;
};

}  // namespace
}  // namespace needle::NEEDLE_ISA
