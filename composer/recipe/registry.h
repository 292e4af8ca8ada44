// Names -> components. A program registers its components by explicit calls before composer::main:
//   registry().algorithms.add<GradientNoise>("gradient_noise", "adds fading noise to gradients");
// T is constructed from its nested T::Params (params.h), if it has one, else without arguments.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/params/kinds.h"
#include "base/params/params.h"
#include "composer/loop/algorithm.h"
#include "composer/recipe/compatibility.h"

namespace composer {

class Dataset;
class LogSink;
class Model;
class Optimizer;
class Scheduler;

/// A component chosen by name, with its parameters, not yet built.
class Component {
 public:
  virtual ~Component() = default;

  const std::string& name() const { return name_; }
  /// The fields of this object's parameters: reading into them changes what build() makes.
  virtual FieldSet fields() = 0;
  /// The events whose functions an algorithm or a callback overrides.
  virtual EventSet subscriptions() const { return {}; }
  /// The declaration of an algorithm.
  virtual Compatibility compatibility() const { return {}; }
  /// The prefix of averaged weights in an algorithm's state dict, declared as `static constexpr
  /// const char* average_prefix`; "": the algorithm keeps no average.
  virtual std::string average_prefix() const { return ""; }

 protected:
  explicit Component(std::string name) : name_(std::move(name)) {}

 private:
  std::string name_;
};

/// A Component that builds a Base.
template <class Base>
class ComponentOf : public Component {
 public:
  using Component::Component;
  virtual std::shared_ptr<Base> build() const = 0;
};

/// Stands in for T::Params where T has none.
struct NoParams {
  void fields(auto&&) {}
};

template <class T>
struct ParamsOf {
  using type = NoParams;
};
template <class T>
requires requires { typename T::Params; }
struct ParamsOf<T> {
  using type = typename T::Params;
};

template <class Base, class T>
class ComponentFor final : public ComponentOf<Base> {
 public:
  using Params = typename ParamsOf<T>::type;

  explicit ComponentFor(std::string name, Params params = {})
      : ComponentOf<Base>(std::move(name)), params_(std::move(params)) {}

  FieldSet fields() override { return collect(params_); }

  EventSet subscriptions() const override {
    if constexpr (std::is_same_v<Base, Algorithm> || std::is_same_v<Base, Callback>)
      return composer::subscriptions<T>();
    else
      return {};
  }

  Compatibility compatibility() const override {
    if constexpr (requires { T::compatibility(); })
      return T::compatibility();
    else
      return {};
  }

  std::string average_prefix() const override {
    if constexpr (requires { T::average_prefix; })
      return T::average_prefix;
    else
      return "";
  }

  std::shared_ptr<Base> build() const override {
    if constexpr (std::is_same_v<Params, NoParams>)
      return std::make_shared<T>();
    else
      return std::make_shared<T>(params_);
  }

 private:
  Params params_;
};

/// The components of one kind, by name.
class CatalogBase {
 public:
  /// kind, plural: "algorithm" and "algorithms", for messages.
  CatalogBase(std::string kind, std::string plural)
      : kind_(std::move(kind)), plural_(std::move(plural)) {}
  virtual ~CatalogBase() = default;

  const std::string& kind() const { return kind_; }
  const std::string& plural() const { return plural_; }
  std::vector<std::string> names() const;  ///< sorted
  bool contains(std::string_view name) const { return docs_.contains(name); }
  const std::string& doc(std::string_view name) const;
  /// A new component with default parameters. std::logic_error if the name is unknown.
  virtual std::shared_ptr<Component> find(const std::string& name) const = 0;

 protected:
  void note(const std::string& name,
            std::string doc);  ///< std::logic_error if the name is taken

 private:
  std::string kind_, plural_;
  std::map<std::string, std::string, std::less<>> docs_;
};

template <class Base>
class Catalog final : public CatalogBase {
 public:
  using CatalogBase::CatalogBase;

  /// doc: one line. Adding a name twice is a std::logic_error.
  template <class T>
  void add(const std::string& name, std::string doc = "") {
    note(name, std::move(doc));
    makers_[name] = [name] { return std::make_shared<ComponentFor<Base, T>>(name); };
  }

  std::shared_ptr<ComponentOf<Base>> make(const std::string& name) const {
    doc(name);
    return makers_.at(name)();
  }

  /// A component with parameters given in C++, for a Recipe made in C++. std::logic_error if T is
  /// not the registered class of that name.
  template <class T>
  std::shared_ptr<ComponentOf<Base>> make(const std::string& name,
                                          typename ParamsOf<T>::type params) const {
    if (!std::dynamic_pointer_cast<ComponentFor<Base, T>>(make(name)))
      throw std::logic_error(kind() + " '" + name + "' is registered as another class");
    return std::make_shared<ComponentFor<Base, T>>(name, std::move(params));
  }

  std::shared_ptr<Component> find(const std::string& name) const override { return make(name); }

 private:
  std::map<std::string, std::function<std::shared_ptr<ComponentOf<Base>>()>> makers_;
};

/// Everything a recipe can name.
struct Registry {
#define X(kind, Base, word) Catalog<Base> kind{#word, #kind};
  COMPOSER_KINDS(X)
#undef X

  /// All catalogs, in the order of COMPOSER_KINDS.
  std::vector<const CatalogBase*> catalogs() const;
};

/// The registry of this process.
Registry& registry();

}  // namespace composer
