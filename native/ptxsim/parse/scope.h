// Registers, variables and constants of one kernel while it is decoded.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "../program.h"

namespace ptxsim {

struct Symbol {
  enum Type : u8 { reg, shared, dynamic_shared, local, param, global };
  Type type = reg;
  Width width = Width::word;  // of a register
  u8 bits = 32;               // of its type
  u32 slot = 0;
  u64 address = 0;  // of a variable, in its space
};

class Scope {
 public:
  explicit Scope(Kernel& kernel) : kernel_(kernel), levels_(1) {
    for (u32& slot : kernel.special) slot = kNone;
  }

  void enter() { levels_.emplace_back(); }
  void leave() { levels_.pop_back(); }
  void declare(std::string_view name, Symbol symbol) { levels_.back()[std::string(name)] = symbol; }
  // .reg .b32 %r<10>
  void declare_registers(std::string_view prefix, u32 count, u32 bits);
  const Symbol* find(std::string_view name) const;

  // Labels are unique per expansion of a function.
  u32 new_slot(Width width);
  u32 constant(u64 value, Width width, bool after_static_shared = false);
  // The slot of %tid.x and its like; kNone if there is no such register.
  u32 special(std::string_view name);

 private:
  Kernel& kernel_;
  std::vector<std::unordered_map<std::string, Symbol>> levels_;
  struct Family {
    u32 bits;
    bool counted;
  };
  std::map<std::tuple<u64, Width, bool>, u32> constants_;
};

Width width_of(u32 bits);

}  // namespace ptxsim
