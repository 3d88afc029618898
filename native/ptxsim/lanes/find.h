// Finds the function of an instruction by its name.
#pragma once

#include <string>
#include <string_view>

#include "forms.h"

namespace ptxsim {

// The form of that name, of the best instruction set, or null. Notes that it was used.
const Form* find_form(std::string_view name);

// Instructions that are not computed lane by lane are named here, so that tests see them.
void note_instruction(std::string_view name);

// All forms, one per line, with a star before those that were found.
std::string describe_forms();

}  // namespace ptxsim
