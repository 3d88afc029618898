// Turns statements of PTX into instructions, and appends them to a kernel.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "operands.h"
#include "scope.h"

namespace ptxsim {

class Decoder {
 public:
  Decoder(Kernel& kernel, Scope& scope) : kernel_(kernel), scope_(scope) {}

  void decode(const Statement& statement);
  // A branch whose target is known later; see Instruction::target.
  Instruction& append_branch(const Statement& statement, s32 target);
  void append_call(const Statement& statement, Handler handler, const std::vector<u32>& params);

  Location at;  // of the statements that follow

 private:
  // One family of instructions each.
  bool decode_memory();
  bool decode_warp();
  bool decode_barrier();
  bool decode_move();
  bool decode_convert();
  bool decode_compare();
  bool decode_lanes();
  bool decode_misc();

  void load_or_store(bool is_load);
  void atomic();
  void copy_async();
  void load_matrix();
  void mma();
  void shuffle();
  void vote();
  void match();
  void reduce();
  void special_register(const Operand& to, std::string_view name);
  void pack(bool unpacks);
  void convert_pair(Instruction i);

  [[noreturn]] void fail(const std::string& why) const;
  const Operand& operand(size_t index) const;

  // The slot of a source as the width that is asked for; converts where the register has another.
  u32 source(const Operand& operand, Width width, bool is_signed = false);
  u32 result(const Operand& operand, Width width, bool is_signed = false);
  u32 raw_result(const Operand& operand, bool* is_wide);  // whatever width it has
  void address(const Operand& operand, Instruction& i);
  void set_access(Instruction& i, std::string_view type);
  Space space_of(Space otherwise) const;
  const Symbol& symbol(std::string_view name) const;

  Instruction begin(Handler handler = nullptr, Kind kind = Kind::plain);
  void emit(Instruction instruction);
  void emit_lanes(std::string_view form, u32 dst, std::initializer_list<u32> sources, bool guarded);

  Kernel& kernel_;
  Scope& scope_;
  const Statement* statement_ = nullptr;
  std::string name_;  // of the form, while words are looked up
  struct Widening {
    std::string_view form;
    u32 to, from;
  };
  std::vector<Widening> widenings_;  // to do after the instruction
};

}  // namespace ptxsim
