// Facts about a whole kernel, once it is decoded.
#pragma once

#include "../program.h"

namespace ptxsim {

void finish_kernel(Kernel& kernel);

}  // namespace ptxsim
