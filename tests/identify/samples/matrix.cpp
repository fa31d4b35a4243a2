#include <algorithm>
#include <iostream>
#include <numeric>
#include <stdexcept>
#include <vector>

template <typename T>
class Matrix {
 public:
  Matrix(std::size_t rows, std::size_t columns) : rows_(rows), columns_(columns), cells_(rows * columns) {}

  T& at(std::size_t row, std::size_t column) {
    if (row >= rows_ || column >= columns_) throw std::out_of_range("Matrix::at");
    return cells_[row * columns_ + column];
  }

  T trace() const {
    T sum{};
    for (std::size_t i = 0; i < std::min(rows_, columns_); ++i) sum += cells_[i * columns_ + i];
    return sum;
  }

 private:
  std::size_t rows_, columns_;
  std::vector<T> cells_;
};

int main() {
  Matrix<double> m(3, 3);
  for (std::size_t i = 0; i < 3; ++i) m.at(i, i) = 1.5;
  std::cout << "trace " << m.trace() << '\n';
}
