#include "lexer.h"

#include <algorithm>

namespace ptxsim {
namespace {

bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         c == '$' || c == '%' || c == '.';
}

}  // namespace

std::vector<Token> tokens_of(std::string_view source) {
  std::vector<Token> tokens;
  tokens.reserve(source.size() / 4);
  u32 line = 1;
  size_t at = 0;
  const size_t size = source.size();
  const auto skip_to = [&](std::string_view end) {
    const size_t found = std::min(source.find(end, at + 1), size);
    line += static_cast<u32>(std::count(source.begin() + at, source.begin() + found, '\n'));
    at = std::min(found + (end == "\n" ? 0 : end.size()), size);
  };
  while (at < size && source[at] != '\0') {
    const char c = source[at];
    const size_t first = at;
    if (c == '\n') {
      ++line, ++at;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++at;
    } else if (source.compare(at, 2, "//") == 0) {
      skip_to("\n");
    } else if (source.compare(at, 2, "/*") == 0) {
      skip_to("*/");
    } else if (c == '"') {
      skip_to("\"");
      tokens.push_back({source.substr(first, at - first), line});
    } else if (is_word(c)) {
      // "::" belongs to words such as .shared::cta
      while (at < size && (is_word(source[at]) || source.compare(at, 2, "::") == 0))
        at += source[at] == ':' ? 2 : 1;
      tokens.push_back({source.substr(first, at - first), line});
    } else {
      tokens.push_back({source.substr(at++, 1), line});
    }
  }
  return tokens;
}

}  // namespace ptxsim
