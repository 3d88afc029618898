// PTX text to a module: variables in device memory, kernels as decoded instructions.
#pragma once

#include <memory>
#include <string>

#include "../program.h"

namespace ptxsim {

std::unique_ptr<Module> parse_module(std::string source);  // throws Failure

}  // namespace ptxsim
