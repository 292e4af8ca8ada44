#include "composer/recipe/class_weights.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace composer {
namespace {

constexpr const char* other_words = "; others are balanced, NAME=NUMBER";

/// Reads words and items one after another.
class WeightReader {
 public:
  WeightReader(const Rules& rules, std::string path, Problems& problems)
      : rules_(rules), path_(std::move(path)), problems_(problems) {}

  void read(const Value& value) {
    if (value.kind == Value::Kind::map) {
      for (const auto& [name, origin, number] : value.entries) add(name, number);
    } else if (value.kind == Value::Kind::list) {
      for (const Value& item : value.items) read(item);
    } else if (value.kind == Value::Kind::scalar && !value.none()) {
      read_word(value);
    }
  }

  ClassWeights weights;

 private:
  void add(const std::string& name, const Value& number) {
    double weight = 0;
    read_value(number, rules_, path_ + "." + name, weight, problems_);
    if (std::ranges::any_of(weights.by_name, [&](const auto& one) { return one.first == name; }))
      problems_.push_back({number.origin, path_, "'" + name + "' is there twice"});
    weights.by_name.emplace_back(name, weight);
  }

  void read_word(const Value& word) {
    const size_t equals = word.text.rfind('=');
    if (word.text.starts_with('{')) return read_map(word);
    if (equals != std::string::npos)
      return add(word.text.substr(0, equals),
                 Value::scalar(word.text.substr(equals + 1), word.origin));
    if (word.text == "balanced")
      return problems_.push_back({word.origin, path_, "balanced stands alone"});
    double number = 0;
    const size_t before = problems_.size();
    read_value(word, rules_, path_, number, problems_);
    if (problems_.size() > before) problems_.back().message += other_words;
    weights.numbers.push_back(number);
  }

  void read_map(const Value& word) {
    Problems wrong;
    const auto read_text = parse_yaml("word: " + word.text, "", wrong);
    const Value* const map = read_text ? read_text->find("word") : nullptr;
    if (!wrong.empty() || map == nullptr || map->kind != Value::Kind::map)
      return problems_.push_back(
          {word.origin, path_, "'" + word.text + "' is no map as YAML has it: {cat: 2, dog: 1}"});
    for (const auto& [name, origin, number] : map->entries)
      add(name, number.kind == Value::Kind::scalar ? Value::scalar(number.text, word.origin)
                                                   : Value::list(word.origin));
  }

  const Rules& rules_;
  const std::string path_;
  Problems& problems_;
};

}  // namespace

std::vector<double> numbers_of(const ClassWeights& weights, const std::vector<std::string>& classes,
                               const std::map<int64_t, int64_t>& samples) {
  if (!weights.follow_from_data()) return weights.numbers;
  std::vector<double> numbers(classes.size(), 1);
  std::vector<std::string> problems;
  for (const auto& [name, weight] : weights.by_name) {
    const auto place = std::ranges::find(classes, name) - classes.begin();
    if (place < std::ssize(classes))
      numbers[static_cast<size_t>(place)] = weight;
    else
      problems.push_back("class_weights: there is no class '" + name + "'; the classes are " +
                         first_few(classes) + did_you_mean(name, classes));
  }
  if (!problems.empty()) throw UserError(problems);
  if (!weights.balanced) return numbers;
  double all = 0, present = 0;
  for (const auto& [label, count] : samples)
    if (count > 0) all += static_cast<double>(count), present += 1;
  for (const auto& [label, count] : samples)
    if (count > 0 && label >= 0 && label < std::ssize(numbers))
      numbers[static_cast<size_t>(label)] = all / (present * static_cast<double>(count));
  return numbers;
}

void read_value(const Value& value, const Rules& rules, const std::string& path, ClassWeights& out,
                Problems& problems) {
  if (value.kind == Value::Kind::scalar && value.text == "balanced") {
    out = ClassWeights();
    out.balanced = true;
    return;
  }
  const size_t before = problems.size();
  WeightReader reader(rules, path, problems);
  reader.read(value);
  if (!reader.weights.numbers.empty() && !reader.weights.by_name.empty())
    problems.push_back({value.origin, path, "must be numbers or weights by name, not both"});
  if (problems.size() == before) out = std::move(reader.weights);
}

void check_value(const ClassWeights& weights, const Rules& rules, const std::string& path,
                 Problems& problems) {
  for (const auto& [name, weight] : weights.by_name)
    check_value(weight, rules, path + "." + name, problems);
  for (const double number : weights.numbers) {
    const size_t before = problems.size();
    check_value(number, rules, path, problems);
    if (problems.size() > before) problems.back().message += other_words;
  }
}

Value write_value(const ClassWeights& weights) {
  if (weights.balanced) return Value::scalar("balanced");
  if (weights.by_name.empty()) return write_value(weights.numbers);
  Value map = Value::map();
  for (const auto& [name, weight] : weights.by_name) map.set(name, write_value(weight));
  return map;
}

}  // namespace composer
