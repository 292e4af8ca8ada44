#include "composer/checkpoint/pickle.h"

#include <bit>
#include <map>

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

// The meaning of a call of each name. Other names belong to objects that training programs store
// beside the weights.
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
  for (uint8_t opcode; (opcode = reader_.number<uint8_t>()) != '.';) execute(opcode);
  return pop();
}

template <class T>
T Unpickler::pop_as(const char* what) {
  return as<T>(pop(), what);
}

template <class T>
T* Unpickler::make(T value, std::deque<T>& owner) {
  if (++made_ > max_objects) fail("the pickle holds too many objects");
  return &owner.emplace_back(std::move(value));
}

void Unpickler::execute(uint8_t opcode) {
  switch (opcode) {
    case 0x80:  // protocol
      reader_.take(1);
      return;
    case 0x95:  // frame
      reader_.take(8);
      return;

    case 'N':
      return push(PickleOpaque{});
    case 0x88:
    case 0x89:
      return push(opcode == 0x88);
    case 'J':
      return push(int64_t{reader_.number<int32_t>()});
    case 'K':
      return push(int64_t{reader_.number<uint8_t>()});
    case 'M':
      return push(int64_t{reader_.number<uint16_t>()});
    case 0x8a:
      return push_integer(reader_.take(reader_.number<uint8_t>()));
    case 0x8b:
      return push_integer(reader_.take(reader_.number<uint32_t>()));
    case 'G':
      return push_real();

    case 0x8c:
    case 'C':
    case 'U':
      return push(reader_.text(reader_.number<uint8_t>()));
    case 'X':
    case 'B':
    case 'T':
      return push(reader_.text(reader_.number<uint32_t>()));
    case 0x8d:
    case 0x8e:
    case 0x96:
      return push(reader_.text(reader_.number<uint64_t>()));

    case 'q':
      return store(reader_.number<uint8_t>());
    case 'r':
      return store(reader_.number<uint32_t>());
    case 0x94:
      return store(static_cast<uint32_t>(memo_.size()));
    case 'h':
      return recall(reader_.number<uint8_t>());
    case 'j':
      return recall(reader_.number<uint32_t>());

    case ')':
      return push(make(PickleTuple{}, tuples_));
    case 't':
      return push(make(PickleTuple{pop_to_mark()}, tuples_));
    case 0x85:
    case 0x86:
    case 0x87:
      return push(make(PickleTuple{pop_many(opcode - 0x84)}, tuples_));
    case ']':
      return push(make(PickleList{}, lists_));
    case 'l':
      return push(make(PickleList{pop_to_mark()}, lists_));
    case '}':
      return push(make(PickleDict{}, dicts_));
    case 'd':
      return push(make(PickleDict{pairs(pop_to_mark())}, dicts_));
    case 0x91:  // a frozen set
      pop_to_mark();
      return push(PickleOpaque{});
    case 0x8f:  // a set
      return push(PickleOpaque{});

    case '(':
      return push(PickleMark{});
    case '0':
    case 'b':  // attributes of an object
      pop();
      return;
    case '1':
    case 0x90:  // adds to a set
      pop_to_mark();
      return;
    case '2':
      return push(top());
    case 'a':
      return extend_list(pop_many(1));
    case 'e':
      return extend_list(pop_to_mark());
    case 's':
      return extend_dict(pop_many(2));
    case 'u':
      return extend_dict(pop_to_mark());

    case 'c': {
      const auto module = reader_.line();
      return push(PickleGlobal{module, reader_.line()});
    }
    case 0x93: {
      const auto name = pop_as<std::string_view>("name");
      return push(PickleGlobal{pop_as<std::string_view>("module"), name});
    }
    case 0x92:
      pop();  // arguments by name
      return push_result();
    case 'R':
    case 0x81:
      return push_result();
    case 'Q':
      return push_storage();
    default:
      fail("the pickle has an unknown instruction (" + std::to_string(opcode) +
           "): not a state dict, or damaged");
  }
}

void Unpickler::store(uint32_t key) {
  if (++made_ > max_objects) fail("the pickle holds too many objects");
  memo_[key] = top();
}

void Unpickler::recall(uint32_t key) {
  const auto found = memo_.find(key);
  if (found == memo_.end()) fail("the pickle is damaged: it recalls what was never stored");
  push(found->second);
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

// Eight bytes, big-endian.
void Unpickler::push_real() {
  uint64_t bits = 0;
  for (const uint8_t byte : reader_.take(8)) bits = bits << 8 | byte;
  push(std::bit_cast<double>(bits));
}

void Unpickler::push_result() {
  const auto* arguments = pop_as<PickleTuple*>("arguments");
  const auto function = pop();
  const bool opaque = std::holds_alternative<PickleOpaque>(function);
  push(opaque ? function : call(as<PickleGlobal>(function, "function"), arguments->items));
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

}  // namespace composer
