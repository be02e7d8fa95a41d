// Sums of waves, their gradients, and their products with weights: the arithmetic of
// deeplfm/features/waves.py in one pass over rows.
//
//   F[r, k] = base + transients + sum_j a[j, k] exp(i (omega[j, :, k] . x[j, r, :] + alpha[j, k]))
//
// Every function does the rows first <= n < last of all batches and samples, so that threads share
// no line of any result. Columns are the inner loop: tables and one line of F stay in the first cache,
// and the compiler can use the widest registers there are. Nothing is kept between rows; a gradient
// evaluates sines and cosines again, which costs less than storing them.

#include <cmath>
#include <cstdint>
#include <vector>

namespace {

// 1/n! with alternating signs: the series of sine (odd n) and cosine (even n) on [-pi/4, pi/4].
// Half a turn of pi is split so that a multiple of it can be taken away without rounding.
template <typename T> struct Series;

template <> struct Series<float> {
  static constexpr int terms = 4;
  static constexpr float half_pi[3] = {1.57079637050628662109375f, -4.3711388286737929e-8f,
                                       -1.7151245100058819e-15f};
};

template <> struct Series<double> {
  static constexpr int terms = 8;
  static constexpr double half_pi[3] = {1.570796326794896558, 6.1232339957367660e-17,
                                        -1.4973849048591698e-33};
};

constexpr double signed_inverse_factorial(int n, int sign) {
  double value = sign;
  for (int i = 2; i <= n; ++i) value /= i;
  return value;
}

template <typename T, int Parity, int Term> inline T horner(T square) {
  // Sum from this term on of (-1)^i square^(i - Term) / (2 i + Parity)!
  constexpr T coefficient =
      T(signed_inverse_factorial(2 * Term + Parity, Term % 2 == 0 ? 1 : -1));
  if constexpr (Term == Series<T>::terms) {
    return coefficient;
  } else {
    return coefficient + square * horner<T, Parity, Term + 1>(square);
  }
}

template <typename T> inline void sine_cosine(T angle, T &sine, T &cosine) {
  constexpr T two_over_pi = T(0.636619772367581343);
  const T turns = std::rint(angle * two_over_pi);
  T rest = std::fma(-turns, Series<T>::half_pi[0], angle);
  rest = std::fma(-turns, Series<T>::half_pi[1], rest);
  rest = std::fma(-turns, Series<T>::half_pi[2], rest);
  const T square = rest * rest;
  const T small_sine = rest * horner<T, 1, 0>(square);
  const T small_cosine = horner<T, 0, 0>(square);
  const T half = std::floor(turns * T(0.5));
  const T is_odd = turns - 2 * half;                              // 0 or 1
  const T is_half_odd = half - 2 * std::floor(half * T(0.5));
  const T sign = 1 - 2 * is_half_odd;
  sine = sign * (is_odd > 0 ? small_cosine : small_sine);
  cosine = sign * (1 - 2 * is_odd) * (is_odd > 0 ? small_sine : small_cosine);
}

struct Shape {
  int64_t batches, x_batches, terms, samples, rows, dimensions, columns, transients, units;
  int64_t has_base;
};

// Angles of one row and one term.
template <typename T>
inline void angles(const T *x, const T *frequency, const T *phase, int64_t dimensions,
                   int64_t columns, T *__restrict angle) {
  for (int64_t k = 0; k < columns; ++k) angle[k] = phase[k];
  for (int64_t i = 0; i < dimensions; ++i) {
    const T value = x[i];
    const T *line = frequency + i * columns;
#pragma omp simd
    for (int64_t k = 0; k < columns; ++k) angle[k] += value * line[k];
  }
}

template <typename T>
inline void add_multiple(T factor, const T *__restrict line, int64_t size, T *__restrict total) {
#pragma omp simd
  for (int64_t k = 0; k < size; ++k) total[k] += factor * line[k];
}

template <typename T>
inline T dot(const T *__restrict left, const T *__restrict right, int64_t size) {
  T total = 0;
#pragma omp simd reduction(+ : total)
  for (int64_t k = 0; k < size; ++k) total += left[k] * right[k];
  return total;
}

template <typename T> struct Tables {
  const T *frequency, *amplitude, *phase;  // B J I K, B J K, B J K
};

// One row of F added to real and imag; sines and cosines of all terms are left in waves (2 J K).
template <typename T>
inline void add_waves(const Shape &shape, const Tables<T> &tables, int64_t batch, const T *x,
                      int64_t row, T *__restrict angle, T *waves, T *__restrict real,
                      T *__restrict imag) {
  const int64_t columns = shape.columns, dimensions = shape.dimensions;
  const int64_t all_rows = shape.samples * shape.rows;
  const int64_t x_batch = shape.x_batches == 1 ? 0 : batch;
  for (int64_t j = 0; j < shape.terms; ++j) {
    const int64_t table = batch * shape.terms + j;
    angles(x + ((x_batch * shape.terms + j) * all_rows + row) * dimensions,
           tables.frequency + table * dimensions * columns, tables.phase + table * columns,
           dimensions, columns, angle);
    const T *__restrict size = tables.amplitude + table * columns;
    T *__restrict sines = waves + 2 * j * columns;
    T *__restrict cosines = sines + columns;
#pragma omp simd
    for (int64_t k = 0; k < columns; ++k) {
      T sine, cosine;
      sine_cosine(angle[k], sine, cosine);
      sines[k] = sine;
      cosines[k] = cosine;
      real[k] += size[k] * cosine;
      imag[k] += size[k] * sine;
    }
  }
}

// What the gradient of one row of F says of inputs and tables.
template <typename T> struct Sums {
  T *amplitude, *phase, *frequency;  // J K, J K, J I K
};

template <typename T>
inline void pull_waves(const Shape &shape, const Tables<T> &tables, int64_t batch, const T *x,
                       int64_t row, const T *waves, const T *__restrict grad_real,
                       const T *__restrict grad_imag, T *__restrict turn, const Sums<T> &sums,
                       T *grad_x) {
  const int64_t columns = shape.columns, dimensions = shape.dimensions;
  const int64_t all_rows = shape.samples * shape.rows;
  const int64_t x_batch = shape.x_batches == 1 ? 0 : batch;
  for (int64_t j = 0; j < shape.terms; ++j) {
    const int64_t table = batch * shape.terms + j;
    const T *__restrict size = tables.amplitude + table * columns;
    const T *__restrict sines = waves + 2 * j * columns;
    const T *__restrict cosines = sines + columns;
    T *__restrict by_amplitude = sums.amplitude + j * columns;
    T *__restrict by_phase = sums.phase + j * columns;
#pragma omp simd
    for (int64_t k = 0; k < columns; ++k) {
      by_amplitude[k] += grad_real[k] * cosines[k] + grad_imag[k] * sines[k];
      turn[k] = size[k] * (grad_imag[k] * cosines[k] - grad_real[k] * sines[k]);
      by_phase[k] += turn[k];
    }
    const T *values = x + ((x_batch * shape.terms + j) * all_rows + row) * dimensions;
    T *to_x = grad_x + (table * all_rows + row) * dimensions;
    for (int64_t i = 0; i < dimensions; ++i) {
      add_multiple(values[i], turn, columns, sums.frequency + (j * dimensions + i) * columns);
      to_x[i] = dot(tables.frequency + (table * dimensions + i) * columns, turn, columns);
    }
  }
}

// Sums over rows are taken in T over a run of rows and in double over runs.
constexpr int64_t run_of_rows = 64;

template <typename T> void flush(std::vector<T> &sums, double *total) {
  for (size_t k = 0; k < sums.size(); ++k) {
    total[k] += sums[k];
    sums[k] = 0;
  }
}

template <typename T>
void evaluate(const Shape &shape, int64_t first, int64_t last, const T *x, const Tables<T> &tables,
              T *real, T *imag) {
  std::vector<T> angle(shape.columns), waves(2 * shape.terms * shape.columns);
  for (int64_t b = 0; b < shape.batches; ++b)
    for (int64_t s = 0; s < shape.samples; ++s)
      for (int64_t n = first; n < last; ++n) {
        const int64_t row = s * shape.rows + n;
        const int64_t line = (b * shape.samples * shape.rows + row) * shape.columns;
        add_waves(shape, tables, b, x, row, angle.data(), waves.data(), real + line, imag + line);
      }
}

template <typename T>
void pull_back(const Shape &shape, int64_t first, int64_t last, const T *x,
               const Tables<T> &tables, const T *grad_real, const T *grad_imag, T *grad_x,
               double *grad_tables) {
  const int64_t columns = shape.columns, wide = shape.terms * columns;
  std::vector<T> angle(columns), waves(2 * wide), real(columns), imag(columns);
  std::vector<T> sums((2 + shape.dimensions) * wide);
  const Sums<T> parts{sums.data(), sums.data() + wide, sums.data() + 2 * wide};
  for (int64_t b = 0; b < shape.batches; ++b) {
    int64_t done = 0;
    for (int64_t s = 0; s < shape.samples; ++s)
      for (int64_t n = first; n < last; ++n) {
        const int64_t row = s * shape.rows + n;
        const int64_t line = (b * shape.samples * shape.rows + row) * columns;
        add_waves(shape, tables, b, x, row, angle.data(), waves.data(), real.data(), imag.data());
        pull_waves(shape, tables, b, x, row, waves.data(), grad_real + line, grad_imag + line,
                   angle.data(), parts, grad_x);
        if (++done % run_of_rows == 0) flush(sums, grad_tables + b * sums.size());
      }
    flush(sums, grad_tables + b * sums.size());
  }
}

// The same for many short lines, whose width is a multiple of lanes: loops of a fixed length.
constexpr int64_t lanes = 8;

template <typename T>
inline void combine(const T *factors, const T *__restrict table, int64_t lines, int64_t width,
                    T *__restrict total) {
  for (int64_t c = 0; c < width; c += lanes) {
    T sum[lanes] = {};
    for (int64_t i = 0; i < lines; ++i)
      for (int64_t v = 0; v < lanes; ++v) sum[v] += factors[i] * table[i * width + c + v];
    for (int64_t v = 0; v < lanes; ++v) total[c + v] = sum[v];
  }
}

template <typename T>
inline void add_outer(const T *factors, const T *__restrict line, int64_t lines, int64_t width,
                      T *__restrict total) {
  for (int64_t i = 0; i < lines; ++i)
    for (int64_t c = 0; c < width; c += lanes)
      for (int64_t v = 0; v < lanes; ++v) total[i * width + c + v] += factors[i] * line[c + v];
}

template <typename T>
inline T short_dot(const T *__restrict left, const T *__restrict right, int64_t width) {
  T sum[lanes] = {};
  for (int64_t c = 0; c < width; c += lanes)
    for (int64_t v = 0; v < lanes; ++v) sum[v] += left[c + v] * right[c + v];
  return ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]));
}

// Transients of one batch: lines of gains that most columns share, and lines (powers) that few
// columns ask for, which are kept side by side for those columns only.
template <typename T> class Transients {
 public:
  std::vector<int64_t> dense, sparse, places;
  int64_t width = 0;  // of a sparse line, a multiple of lanes

  Transients(const T *gains, int64_t lines, int64_t columns) : lines_(lines), columns_(columns) {
    std::vector<bool> is_asked(columns, false);
    for (int64_t l = 0; l < lines; ++l) {
      int64_t count = 0;
      for (int64_t k = 0; k < columns; ++k) count += is_used(gains, l, k);
      (4 * count > columns ? dense : sparse).push_back(l);
      if (4 * count <= columns)
        for (int64_t k = 0; k < columns; ++k)
          if (is_used(gains, l, k)) is_asked[k] = true;
    }
    for (int64_t k = 0; k < columns; ++k)
      if (is_asked[k]) places.push_back(k);
    width = (static_cast<int64_t>(places.size()) + lanes - 1) / lanes * lanes;
    compact_.assign(2 * sparse.size() * width, T(0));
    for (int64_t part = 0; part < 2; ++part)
      for (size_t i = 0; i < sparse.size(); ++i)
        for (size_t c = 0; c < places.size(); ++c)
          compact_[place(part, i) + c] = gains[(part * lines + sparse[i]) * columns + places[c]];
  }
  int64_t place(int64_t part, int64_t i) const {
    return (part * static_cast<int64_t>(sparse.size()) + i) * width;
  }
  const T *line(int64_t part, int64_t i) const { return compact_.data() + place(part, i); }
  int64_t size() const { return static_cast<int64_t>(compact_.size()); }
  int64_t count() const { return static_cast<int64_t>(sparse.size()); }
  void take(const T *transient, T *factors) const {
    for (size_t i = 0; i < sparse.size(); ++i) factors[i] = transient[sparse[i]];
  }

 private:
  bool is_used(const T *gains, int64_t l, int64_t k) const {
    return gains[l * columns_ + k] != 0 || gains[(lines_ + l) * columns_ + k] != 0;
  }
  int64_t lines_, columns_;
  std::vector<T> compact_;
};

// Everything of one row of F = base + transients + waves, for moments F m and F^2 v of its columns.
template <typename T> struct Row {
  const T *rows, *gains, *base, *mean, *variance;  // B S N L, B 2 L K, 2 B N K, B U 2K, B U 2K
};

template <typename T>
inline void make_row(const Shape &shape, const Tables<T> &tables, const Row<T> &given,
                     const Transients<T> &transients, int64_t batch, const T *x, int64_t sample,
                     int64_t n, T *angle, T *waves, T *value) {
  const int64_t columns = shape.columns, row = sample * shape.rows + n;
  for (int64_t part = 0; part < 2; ++part) {
    T *line = value + part * columns;
    const T *base = given.base + ((part * shape.batches + batch) * shape.rows + n) * columns;
    for (int64_t k = 0; k < columns; ++k) line[k] = shape.has_base ? base[k] : T(0);
    const T *transient =
        given.rows + (batch * shape.samples * shape.rows + row) * shape.transients;
    const T *gains = given.gains + (batch * 2 + part) * shape.transients * columns;
    for (int64_t l : transients.dense)
      add_multiple(transient[l], gains + l * columns, columns, line);
    if (transients.width) {  // waves are not yet in use
      T *factors = waves + transients.width;
      transients.take(transient, factors);
      combine(factors, transients.line(part, 0), transients.count(), transients.width, waves);
      for (size_t c = 0; c < transients.places.size(); ++c)
        line[transients.places[c]] += waves[c];
    }
  }
  add_waves(shape, tables, batch, x, row, angle, waves, value, value + columns);
}

template <typename T>
void moments(const Shape &shape, int64_t first, int64_t last, const T *x, const Tables<T> &tables,
             const Row<T> &given, T *mean, T *variance) {
  const int64_t columns = shape.columns, wide = 2 * columns;
  std::vector<T> angle(columns), value(wide);
  std::vector<T> waves(2 * shape.terms * columns + shape.transients);
  for (int64_t b = 0; b < shape.batches; ++b) {
    const int64_t lines = 2 * shape.transients;
    const Transients<T> transients(given.gains + b * lines * columns, shape.transients, columns);
    for (int64_t n = first; n < last; ++n)
      for (int64_t s = 0; s < shape.samples; ++s) {
        make_row(shape, tables, given, transients, b, x, s, n, angle.data(), waves.data(),
                 value.data());
        const int64_t row = (b * shape.samples + s) * shape.rows + n;
        for (int64_t u = 0; u < shape.units; ++u)
          mean[row * shape.units + u] =
              dot(given.mean + (b * shape.units + u) * wide, value.data(), wide);
        for (int64_t k = 0; k < wide; ++k) value[k] *= value[k];
        for (int64_t u = 0; u < shape.units; ++u)
          variance[row * shape.units + u] =
              dot(given.variance + (b * shape.units + u) * wide, value.data(), wide);
      }
  }
}

template <typename T>
void pull_moments(const Shape &shape, int64_t first, int64_t last, const T *x,
                  const Tables<T> &tables, const Row<T> &given, const T *grad_mean,
                  const T *grad_variance, T *grad_x, T *grad_rows, T *grad_base,
                  double *grad_tables) {
  const int64_t columns = shape.columns, wide = 2 * columns, units = shape.units;
  const int64_t terms = shape.terms * columns, lines = shape.transients;
  std::vector<T> angle(columns), value(wide), square(wide), gradient(wide);
  std::vector<T> waves(2 * terms + lines);
  std::vector<T> sums((2 + shape.dimensions) * terms + 2 * lines * columns + 2 * units * wide);
  const Sums<T> parts{sums.data(), sums.data() + terms, sums.data() + 2 * terms};
  T *by_gain = sums.data() + (2 + shape.dimensions) * terms;
  T *by_mean = by_gain + 2 * lines * columns, *by_variance = by_mean + units * wide;
  for (int64_t b = 0; b < shape.batches; ++b) {
    int64_t done = 0;
    const Transients<T> transients(given.gains + b * 2 * lines * columns, lines, columns);
    std::vector<T> few(transients.width), factors(lines), by_few(transients.size());
    const auto finish = [&] {
      for (int64_t part = 0; part < 2; ++part)
        for (size_t i = 0; i < transients.sparse.size(); ++i)
          for (size_t c = 0; c < transients.places.size(); ++c)
            by_gain[(part * lines + transients.sparse[i]) * columns + transients.places[c]] +=
                by_few[transients.place(part, i) + c];
      for (T &sum : by_few) sum = 0;
      flush(sums, grad_tables + b * sums.size());
    };
    for (int64_t n = first; n < last; ++n)
      for (int64_t s = 0; s < shape.samples; ++s) {
        make_row(shape, tables, given, transients, b, x, s, n, angle.data(), waves.data(),
                 value.data());
        const int64_t row = (b * shape.samples + s) * shape.rows + n;
        for (int64_t k = 0; k < wide; ++k) {
          square[k] = value[k] * value[k];
          gradient[k] = 0;
        }
        for (int64_t u = 0; u < units; ++u) {
          const T of_variance = grad_variance[row * units + u];
          add_multiple(2 * of_variance, given.variance + (b * units + u) * wide, wide,
                       gradient.data());
          add_multiple(of_variance, square.data(), wide, by_variance + u * wide);
        }
        for (int64_t k = 0; k < wide; ++k) gradient[k] *= value[k];
        for (int64_t u = 0; u < units; ++u) {
          const T of_mean = grad_mean[row * units + u];
          add_multiple(of_mean, given.mean + (b * units + u) * wide, wide, gradient.data());
          add_multiple(of_mean, value.data(), wide, by_mean + u * wide);
        }
        for (int64_t part = 0; part < 2; ++part) {
          const T *line = gradient.data() + part * columns;
          const T *gains = given.gains + (b * 2 + part) * lines * columns;
          T *to_row = grad_rows + row * lines;
          const T *transient = given.rows + row * lines;
          for (int64_t l : transients.dense) {
            to_row[l] = dot(gains + l * columns, line, columns) + (part ? to_row[l] : T(0));
            add_multiple(transient[l], line, columns, by_gain + (part * lines + l) * columns);
          }
          // A gain that is zero is masked: nobody asks for its gradient.
          for (size_t c = 0; c < transients.places.size(); ++c) few[c] = line[transients.places[c]];
          transients.take(transient, factors.data());
          add_outer(factors.data(), few.data(), transients.count(), transients.width,
                    by_few.data() + transients.place(part, 0));
          for (int64_t i = 0; i < transients.count(); ++i) {
            const int64_t l = transients.sparse[i];
            to_row[l] = short_dot(transients.line(part, i), few.data(), transients.width) +
                        (part ? to_row[l] : T(0));
          }
          if (shape.has_base)
            add_multiple(T(1), line, columns,
                         grad_base + ((part * shape.batches + b) * shape.rows + n) * columns);
        }
        pull_waves(shape, tables, b, x, s * shape.rows + n, waves.data(), gradient.data(),
                   gradient.data() + columns, angle.data(), parts, grad_x);
        if (++done % run_of_rows == 0) finish();
      }
    finish();
  }
}

}  // namespace

#define KERNELS(T, NAME)                                                                         \
  extern "C" void evaluate_##NAME(const Shape *shape, int64_t first, int64_t last, const T *x,  \
                                  const T *frequency, const T *amplitude, const T *phase,       \
                                  T *real, T *imag) {                                           \
    evaluate<T>(*shape, first, last, x, {frequency, amplitude, phase}, real, imag);             \
  }                                                                                             \
  extern "C" void pull_back_##NAME(const Shape *shape, int64_t first, int64_t last, const T *x, \
                                   const T *frequency, const T *amplitude, const T *phase,      \
                                   const T *grad_real, const T *grad_imag, T *grad_x,           \
                                   double *grad_tables) {                                       \
    pull_back<T>(*shape, first, last, x, {frequency, amplitude, phase}, grad_real, grad_imag,   \
                 grad_x, grad_tables);                                                          \
  }                                                                                             \
  extern "C" void moments_##NAME(const Shape *shape, int64_t first, int64_t last, const T *x,   \
                                 const T *frequency, const T *amplitude, const T *phase,        \
                                 const T *rows, const T *gains, const T *base, const T *mean,   \
                                 const T *variance, T *to_mean, T *to_variance) {               \
    moments<T>(*shape, first, last, x, {frequency, amplitude, phase},                           \
               {rows, gains, base, mean, variance}, to_mean, to_variance);                      \
  }                                                                                             \
  extern "C" void pull_moments_##NAME(                                                          \
      const Shape *shape, int64_t first, int64_t last, const T *x, const T *frequency,          \
      const T *amplitude, const T *phase, const T *rows, const T *gains, const T *base,         \
      const T *mean, const T *variance, const T *grad_mean, const T *grad_variance, T *grad_x,  \
      T *grad_rows, T *grad_base, double *grad_tables) {                                        \
    pull_moments<T>(*shape, first, last, x, {frequency, amplitude, phase},                      \
                    {rows, gains, base, mean, variance}, grad_mean, grad_variance, grad_x,      \
                    grad_rows, grad_base, grad_tables);                                         \
  }

KERNELS(float, float32)
KERNELS(double, float64)
