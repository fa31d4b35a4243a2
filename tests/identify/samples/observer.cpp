#include <functional>
#include <map>
#include <memory>
#include <string>

namespace events {

class Bus {
 public:
  using Handler = std::function<void(const std::string&)>;

  int subscribe(Handler handler) {
    handlers_.emplace(next_, std::move(handler));
    return next_++;
  }
  void unsubscribe(int id) { handlers_.erase(id); }
  void publish(const std::string& message) const {
    for (const auto& [id, handler] : handlers_) handler(message);
  }

 private:
  std::map<int, Handler> handlers_;
  int next_ = 0;
};

std::unique_ptr<Bus> make_bus() { return std::make_unique<Bus>(); }

}  // namespace events
