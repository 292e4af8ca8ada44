#include "composer/checkpoint/pickle.h"

#include <bit>

namespace composer {
namespace {

// Far more than any state dict has; keeps a hostile pickle from filling the memory.
constexpr size_t max_objects = 4'000'000, max_dimensions = 64;

[[noreturn]] void fail(const std::string& reason) { throw FormatError(reason); }

struct TypeNames {
  at::ScalarType type;
  std::string_view dtype, storage;
};
constexpr TypeNames type_names[] = {
    {at::kFloat, "float32", "FloatStorage"},
    {at::kDouble, "float64", "DoubleStorage"},
    {at::kHalf, "float16", "HalfStorage"},
    {at::kBFloat16, "bfloat16", "BFloat16Storage"},
    {at::kLong, "int64", "LongStorage"},
    {at::kInt, "int32", "IntStorage"},
    {at::kShort, "int16", "ShortStorage"},
    {at::kChar, "int8", "CharStorage"},
    {at::kByte, "uint8", "ByteStorage"},
    {at::kBool, "bool", "BoolStorage"},
    {at::kUInt16, "uint16", ""},
    {at::kUInt32, "uint32", ""},
    {at::kUInt64, "uint64", ""},
    {at::kFloat8_e4m3fn, "float8_e4m3fn", ""},
    {at::kFloat8_e5m2, "float8_e5m2", ""},
    {at::ScalarType::Undefined, "", "UntypedStorage"},
};

const at::ScalarType* find_type(std::string_view TypeNames::*kind, std::string_view name) {
  for (const auto& names : type_names)
    if (!name.empty() && names.*kind == name) return &names.type;
  return nullptr;
}

enum class Function { ordered_dict, tensor, typed_tensor, first_argument };

// What calling a name means here. Other names make what training programs keep beside the weights.
const std::map<std::pair<std::string_view, std::string_view>, Function>& functions() {
  static const std::map<std::pair<std::string_view, std::string_view>, Function> all{
      {{"collections", "OrderedDict"}, Function::ordered_dict},
      {{"torch._utils", "_rebuild_tensor"}, Function::tensor},
      {{"torch._utils", "_rebuild_tensor_v2"}, Function::tensor},
      {{"torch._utils", "_rebuild_tensor_v3"}, Function::typed_tensor},
      {{"torch._utils", "_rebuild_parameter"}, Function::first_argument},
      {{"torch._utils", "_rebuild_parameter_with_state"}, Function::first_argument},
      {{"torch", "Size"}, Function::first_argument},
  };
  return all;
}

const at::ScalarType* storage_type(const PickleGlobal& global) {
  if (global.module != "torch" && global.module != "torch.storage") return nullptr;
  return find_type(&TypeNames::storage, global.name);
}

const at::ScalarType* dtype(const PickleGlobal& global) {
  return global.module == "torch" ? find_type(&TypeNames::dtype, global.name) : nullptr;
}

template <class T>
const T& as(const PickleValue& value, const char* what) {
  if (const T* held = std::get_if<T>(&value)) return *held;
  fail(std::string("the pickle is damaged: no ") + what + " where one is needed");
}

const std::vector<PickleValue>& items(const PickleValue& value, const char* what) {
  if (auto* const* list = std::get_if<PickleList*>(&value)) return (*list)->items;
  return as<PickleTuple*>(value, what)->items;
}

std::vector<int64_t> integers(const PickleValue& value) {
  const auto& all = items(value, "shape");
  if (all.size() > max_dimensions) fail("a tensor has too many dimensions");
  std::vector<int64_t> numbers;
  for (const auto& item : all) numbers.push_back(as<int64_t>(item, "whole number"));
  return numbers;
}

std::vector<std::pair<PickleValue, PickleValue>> pairs(const std::vector<PickleValue>& flat) {
  if (flat.size() % 2 != 0) fail("the pickle is damaged: a key without a value");
  std::vector<std::pair<PickleValue, PickleValue>> all;
  for (size_t i = 0; i < flat.size(); i += 2) all.emplace_back(flat[i], flat[i + 1]);
  return all;
}

}  // namespace

std::string_view storage_class(at::ScalarType type) {
  for (const auto& names : type_names)
    if (names.type == type) return names.storage;
  return {};
}

PickleValue Unpickler::run() {
  while (step(reader_.number<uint8_t>())) {
  }
  return pop();
}

bool Unpickler::step(uint8_t opcode) {
  if (opcode == '.') return false;
  if (opcode == 0x80 || opcode == 0x95) {  // protocol and frame: nothing to do
    reader_.take(opcode == 0x80 ? 1 : 8);
    return true;
  }
  if (number(opcode) || text(opcode) || memo(opcode) || container(opcode) || stack(opcode) ||
      object(opcode))
    return true;
  fail("the pickle has an unknown instruction (" + std::to_string(opcode) +
       "): not a state dict, or damaged");
}

bool Unpickler::number(uint8_t opcode) {
  switch (opcode) {
    case 'N':
      push(PickleOpaque{});
      break;
    case 0x88:
    case 0x89:
      push(opcode == 0x88);
      break;
    case 'J':
      push(int64_t{reader_.number<int32_t>()});
      break;
    case 'K':
      push(int64_t{reader_.number<uint8_t>()});
      break;
    case 'M':
      push(int64_t{reader_.number<uint16_t>()});
      break;
    case 0x8a:
      push_integer(reader_.take(reader_.number<uint8_t>()));
      break;
    case 0x8b:
      push_integer(reader_.take(reader_.number<uint32_t>()));
      break;
    case 'G': {  // big-endian
      uint64_t bits = 0;
      for (const uint8_t byte : reader_.take(8)) bits = bits << 8 | byte;
      push(std::bit_cast<double>(bits));
      break;
    }
    default:
      return false;
  }
  return true;
}

bool Unpickler::text(uint8_t opcode) {
  if (opcode == 0x8c || opcode == 'C' || opcode == 'U')
    push(reader_.text(reader_.number<uint8_t>()));
  else if (opcode == 'X' || opcode == 'B' || opcode == 'T')
    push(reader_.text(reader_.number<uint32_t>()));
  else if (opcode == 0x8d || opcode == 0x8e || opcode == 0x96)
    push(reader_.text(reader_.number<uint64_t>()));
  else
    return false;
  return true;
}

bool Unpickler::memo(uint8_t opcode) {
  const auto put = [&](uint32_t key) {
    if (++made_ > max_objects) fail("the pickle holds too many objects");
    memo_[key] = top();
  };
  const auto get = [&](uint32_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) fail("the pickle is damaged: it recalls what was never stored");
    push(found->second);
  };
  switch (opcode) {
    case 'q':
      put(reader_.number<uint8_t>());
      break;
    case 'r':
      put(reader_.number<uint32_t>());
      break;
    case 0x94:
      put(static_cast<uint32_t>(memo_.size()));
      break;
    case 'h':
      get(reader_.number<uint8_t>());
      break;
    case 'j':
      get(reader_.number<uint32_t>());
      break;
    default:
      return false;
  }
  return true;
}

bool Unpickler::container(uint8_t opcode) {
  switch (opcode) {
    case ')':
      push(make(PickleTuple{}, tuples_));
      break;
    case 't':
      push(make(PickleTuple{pop_to_mark()}, tuples_));
      break;
    case 0x85:
    case 0x86:
    case 0x87:
      push(make(PickleTuple{pop_many(opcode - 0x84)}, tuples_));
      break;
    case ']':
      push(make(PickleList{}, lists_));
      break;
    case 'l':
      push(make(PickleList{pop_to_mark()}, lists_));
      break;
    case '}':
      push(make(PickleDict{}, dicts_));
      break;
    case 'd':
      push(make(PickleDict{pairs(pop_to_mark())}, dicts_));
      break;
    case 0x91:  // a frozen set, which nobody asks for
      pop_to_mark();
      [[fallthrough]];
    case 0x8f:  // a set
      push(PickleOpaque{});
      break;
    default:
      return false;
  }
  return true;
}

bool Unpickler::stack(uint8_t opcode) {
  switch (opcode) {
    case '(':
      push(PickleMark{});
      break;
    case '0':
      pop();
      break;
    case '1':
    case 0x90:  // adds to a set
      pop_to_mark();
      break;
    case '2':
      push(top());
      break;
    case 'a':
      extend_list(pop_many(1));
      break;
    case 'e':
      extend_list(pop_to_mark());
      break;
    case 's':
      extend_dict(pop_many(2));
      break;
    case 'u':
      extend_dict(pop_to_mark());
      break;
    default:
      return false;
  }
  return true;
}

bool Unpickler::object(uint8_t opcode) {
  switch (opcode) {
    case 'c': {
      const auto module = reader_.line();
      push(PickleGlobal{module, reader_.line()});
      break;
    }
    case 0x93: {
      const auto name = pop_as<std::string_view>("name");
      push(PickleGlobal{pop_as<std::string_view>("module"), name});
      break;
    }
    case 0x92:
      pop();  // arguments by name
      [[fallthrough]];
    case 'R':
    case 0x81: {
      const auto* arguments = pop_as<PickleTuple*>("arguments");
      const auto function = pop();
      const bool opaque = std::holds_alternative<PickleOpaque>(function);
      push(opaque ? function : call(as<PickleGlobal>(function, "function"), arguments->items));
      break;
    }
    case 'b':
      pop();
      break;  // attributes of an object
    case 'Q':
      push_storage();
      break;
    default:
      return false;
  }
  return true;
}

void Unpickler::push(PickleValue value) {
  if (stack_.size() >= max_objects) fail("the pickle holds too many objects");
  stack_.push_back(value);
}

const PickleValue& Unpickler::top() const {
  if (stack_.empty()) fail("the pickle is damaged: its stack is empty");
  return stack_.back();
}

PickleValue Unpickler::pop() {
  const auto popped = top();
  stack_.pop_back();
  return popped;
}

template <class T>
T Unpickler::pop_as(const char* what) {
  return as<T>(pop(), what);
}

std::vector<PickleValue> Unpickler::pop_many(size_t count) {
  if (stack_.size() < count) fail("the pickle is damaged: its stack is empty");
  std::vector<PickleValue> popped(stack_.end() - static_cast<ptrdiff_t>(count), stack_.end());
  stack_.resize(stack_.size() - count);
  return popped;
}

std::vector<PickleValue> Unpickler::pop_to_mark() {
  size_t first = stack_.size();
  while (first > 0 && !std::holds_alternative<PickleMark>(stack_[first - 1])) --first;
  if (first == 0) fail("the pickle is damaged: a mark is missing");
  auto popped = pop_many(stack_.size() - first);
  stack_.pop_back();
  return popped;
}

void Unpickler::extend_list(const std::vector<PickleValue>& added) {
  const auto target = top();
  if (std::holds_alternative<PickleOpaque>(target)) return;
  auto& all = as<PickleList*>(target, "list")->items;
  all.insert(all.end(), added.begin(), added.end());
}

void Unpickler::extend_dict(const std::vector<PickleValue>& added) {
  const auto target = top();
  if (std::holds_alternative<PickleOpaque>(target)) return;
  auto& all = as<PickleDict*>(target, "dict")->items;
  for (const auto& item : pairs(added)) all.push_back(item);
}

void Unpickler::push_integer(std::span<const uint8_t> bytes) {
  if (bytes.size() > sizeof(int64_t)) return push(PickleOpaque{});
  uint64_t value = !bytes.empty() && bytes.back() >= 0x80 ? ~uint64_t{0} : 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | bytes[i];
  push(static_cast<int64_t>(value));
}

// ("storage", type, key, device, number of elements)
void Unpickler::push_storage() {
  const auto& id = items(pop(), "storage");
  if (id.size() != 5 || as<std::string_view>(id[0], "storage") != "storage")
    fail("the pickle is damaged: unknown kind of storage");
  const auto* type = storage_type(as<PickleGlobal>(id[1], "type of storage"));
  if (type == nullptr) fail("the pickle is damaged: unknown type of storage");
  const auto bytes = storage_(as<std::string_view>(id[2], "storage key"));
  const auto count = as<int64_t>(id[4], "storage size");
  const uint64_t element = *type == at::ScalarType::Undefined ? 1 : at::elementSize(*type);
  if (count < 0 || static_cast<uint64_t>(count) > bytes.size() / element)
    fail("cut off or damaged: a storage is shorter than it should be");
  push(make(PickleStorage{*type, bytes.first(static_cast<uint64_t>(count) * element)}, storages_));
}

PickleValue Unpickler::call(const PickleGlobal& function,
                            const std::vector<PickleValue>& arguments) {
  if (storage_type(function) != nullptr || dtype(function) != nullptr)
    fail("the pickle is damaged: it calls what is no function");
  const auto found = functions().find({function.module, function.name});
  if (found == functions().end()) return PickleOpaque{function};
  switch (found->second) {
    case Function::ordered_dict:
      if (!arguments.empty()) fail("the pickle was made by Python 2, which is not supported");
      return make(PickleDict{}, dicts_);
    case Function::tensor:
      return make_tensor(arguments, /*typed=*/false);
    case Function::typed_tensor:
      return make_tensor(arguments, /*typed=*/true);
    case Function::first_argument:
      if (arguments.empty()) fail("the pickle is damaged: an argument is missing");
      return arguments[0];
  }
  return PickleOpaque{};
}

// (storage, offset, sizes, strides, requires_grad, hooks, dtype if `typed`, ...)
PickleValue Unpickler::make_tensor(const std::vector<PickleValue>& arguments, bool typed) {
  if (arguments.size() < (typed ? 7 : 4)) fail("the pickle is damaged: an argument is missing");
  const auto* storage = as<PickleStorage*>(arguments[0], "storage");
  auto type = storage->type;
  if (typed) {
    const auto* named = dtype(as<PickleGlobal>(arguments[6], "dtype"));
    if (named == nullptr) fail("the pickle is damaged: unknown dtype");
    type = *named;
  }
  if (type == at::ScalarType::Undefined) fail("the pickle is damaged: a tensor has no dtype");
  return make(PickledTensor{type, storage->bytes, as<int64_t>(arguments[1], "offset"),
                            integers(arguments[2]), integers(arguments[3])},
              tensors_);
}

template <class T>
T* Unpickler::make(T value, std::deque<T>& owner) {
  if (++made_ > max_objects) fail("the pickle holds too many objects");
  return &owner.emplace_back(std::move(value));
}

}  // namespace composer
