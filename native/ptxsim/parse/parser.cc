#include "parser.h"

#include <cstring>
#include <map>

#include "../check/memory.h"
#include "body.h"
#include "finish.h"

namespace ptxsim {
namespace {

class Parser {
 public:
  explicit Parser(Module& module)
      : module_(module), tokens_(tokens_of(module.source)), cursor_(tokens_, 0, tokens_.size()) {}

  void run() {
    while (!cursor_.done()) read_item();
    initialize();
    const Context context{&tokens_, &functions_, &module_, &shared_};
    for (const auto& [name, entry] : entries_) decode(context, std::string(name), entry);
  }

 private:
  struct Entry {
    std::vector<Declaration> params;
    size_t first = 0, last = 0;
    u32 max_threads = 1024;
  };
  struct Pending {
    Declaration declaration;
    u64 address;
  };

  void read_item();
  void read_variable(bool read_only);
  void read_file();
  void read_entry();
  void read_function();
  std::vector<Declaration> read_params();
  void read_body(size_t* first, size_t* last);
  void initialize();
  void decode(const Context& context, const std::string& name, const Entry& entry);

  Module& module_;
  const std::vector<Token> tokens_;
  Cursor cursor_;
  std::map<std::string_view, Entry> entries_;
  std::map<std::string_view, Function> functions_;
  std::map<std::string_view, Declaration> shared_;
  std::vector<Pending> pending_;
};

void Parser::read_item() {
  const std::string_view word = cursor_.next();
  if (word == ".visible" || word == ".weak" || word == ".common" || word == ".extern" ||
      word == ";")
    return;
  if (word == ".version" || word == ".target" || word == ".address_size" || word == ".loc") {
    cursor_.skip_line();
  } else if (word == ".pragma") {
    cursor_.skip_past(";");
  } else if (word == ".file") {
    read_file();
  } else if (word == ".section") {
    cursor_.next();
    cursor_.skip_brackets("{", "}");
  } else if (word == ".global" || word == ".const") {
    read_variable(word == ".const");
  } else if (word == ".shared") {
    const Declaration d = read_declaration(cursor_);
    shared_[d.name] = d;
    cursor_.expect(";");
  } else if (word == ".entry") {
    read_entry();
  } else if (word == ".func") {
    read_function();
  } else if (word == ".alias") {
    cursor_.skip_past(";");
  } else {
    cursor_.fail("expected a directive that the simulator knows, not " + std::string(word));
  }
}

// .file 1 "k.cu" [, time, size]
void Parser::read_file() {
  const size_t number = cursor_.number();
  const std::string_view quoted = cursor_.next();
  if (module_.files.size() <= number) module_.files.resize(number + 1);
  module_.files[number] = quoted.substr(1, quoted.size() - 2);
  cursor_.skip_line();
}

void Parser::read_variable(bool read_only) {
  const Declaration d = read_declaration(cursor_);
  cursor_.expect(";");
  const u64 address = device_memory().allocate(std::max<u64>(d.bytes(), 1), true, read_only);
  if (address == 0) cursor_.fail("expected less memory for " + std::string(d.name));
  module_.variables[std::string(d.name)] = {address, d.bytes()};
  if (!d.values.empty()) pending_.push_back({d, address});
}

void Parser::initialize() {
  for (const Pending& p : pending_) {
    u64 at = p.address;
    for (const Initializer& v : p.declaration.values) {
      u64 value = v.value;
      if (!v.symbol.empty()) {
        const auto found = module_.variables.find(v.symbol);
        if (found == module_.variables.end())
          cursor_.fail("expected a variable, not " + std::string(v.symbol));
        value += found->second.address;
      }
      std::memcpy(reinterpret_cast<void*>(at), &value, p.declaration.element_bytes());
      at += p.declaration.element_bytes();
    }
  }
}

std::vector<Declaration> Parser::read_params() {
  std::vector<Declaration> params;
  if (!cursor_.take("(")) return params;
  while (!cursor_.take(")")) {
    if (!cursor_.take(".param")) cursor_.expect(".reg");
    params.push_back(read_declaration(cursor_));
    cursor_.take(",");
  }
  return params;
}

void Parser::read_body(size_t* first, size_t* last) {
  const size_t begin = cursor_.position();
  cursor_.skip_brackets("{", "}");
  *first = begin + 1;
  *last = cursor_.position() - 1;
}

void Parser::read_entry() {
  const std::string_view name = cursor_.next();
  Entry entry;
  entry.params = read_params();
  while (!cursor_.is("{")) {
    const std::string_view word = cursor_.next();
    if (word == ";") return;  // declared only
    if (word != ".maxntid" && word != ".reqntid") continue;
    entry.max_threads = static_cast<u32>(cursor_.number());
    while (cursor_.take(",")) entry.max_threads *= static_cast<u32>(cursor_.number());
  }
  read_body(&entry.first, &entry.last);
  entries_[name] = std::move(entry);
}

// .func (.param .b32 result) name (.param .b32 a) { ... }, or only declared.
void Parser::read_function() {
  Function function;
  function.results = read_params();
  const std::string_view name = cursor_.next();
  function.params = read_params();
  while (cursor_.peek().starts_with(".")) cursor_.next();  // .noreturn
  if (cursor_.take(";")) return;
  read_body(&function.first, &function.last);
  functions_[name] = std::move(function);
}

void Parser::decode(const Context& context, const std::string& name, const Entry& entry) {
  auto kernel = std::make_unique<Kernel>();
  kernel->name = name;
  kernel->max_threads = entry.max_threads;
  kernel->files = &module_.files;
  Body body(context, *kernel);
  for (const auto& [variable, place] : module_.variables)
    body.scope().declare(variable, {Symbol::global, Width::wide, 64, 0, place.address});
  u64 offset = 0;
  for (const Declaration& d : entry.params) {
    offset = (offset + d.align - 1) / d.align * d.align;
    kernel->params.push_back({static_cast<u32>(offset), static_cast<u32>(d.bytes())});
    body.scope().declare(d.name, {Symbol::param, Width::word, 32, 0, offset});
    offset += d.bytes();
  }
  kernel->param_bytes = static_cast<u32>(offset);
  body.run(entry.first, entry.last);
  finish_kernel(*kernel);
  module_.kernels[name] = std::move(kernel);
}

}  // namespace

Module::~Module() {
  for (const auto& [name, variable] : variables) device_memory().free(variable.address);
}

std::unique_ptr<Module> parse_module(std::string source) {
  auto module = std::make_unique<Module>();
  module->source = std::move(source);
  Parser(*module).run();
  return module;
}

}  // namespace ptxsim
