// Sums of waves, their gradients, and their products with weights: the arithmetic of
// deeplfm/features/harmonic.py in one pass over rows.
//
//   F[r, k] = base + transients + sum_j a[j, k] exp(i (omega[j, :, k] . x[j, r, :] + alpha[j, k]))
//
// Every function does the rows first <= n < last of all batches and samples, so that threads share
// no line of any result. Columns are taken in chunks that fill a register; all that a chunk of a row
// needs is done while it is there, gradients too. Nothing is kept between rows: a gradient evaluates
// sines and cosines again, which costs less than storing them.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace {

constexpr int register_bytes = 32;

struct Shape {
  int64_t batches, x_batches, terms, samples, rows, dimensions, columns, transients, units, has_base;
  int64_t target_samples;

  int64_t inputs() const { return terms * dimensions; }
  // The lines of columns that tables are made of come in this order, and their gradients too:
  // frequencies, amplitudes, phases, gains (real, imaginary), means and variances (by unit and part).
  int64_t waves() const { return inputs() + 2 * terms; }
  int64_t lines() const { return waves() + 2 * transients + 4 * units; }
  // Transients of a row are so far apart, in B L N S: samples of a row are done one after the other.
  int64_t stride() const { return samples * rows; }
  int64_t transient(int64_t b, int64_t s, int64_t n) const {
    return b * transients * stride() + n * samples + s;
  }
  // Places of a row: among the inputs, among the columns, and among the moments.
  int64_t input(int64_t b, int64_t s, int64_t n) const {
    return (((x_batches == 1 ? 0 : b) * samples + s) * rows + n) * inputs();
  }
  int64_t line(int64_t b, int64_t s, int64_t n) const {
    return ((b * samples + s) * rows + n) * columns;
  }
  int64_t moment(int64_t b, int64_t s, int64_t n) const {
    return ((s * rows + n) * batches + b) * units;
  }
  // Registers full of columns.
  template <typename T> int64_t chunks() const {
    constexpr int64_t size = register_bytes / sizeof(T);
    return (columns + size - 1) / size;
  }
};

// Polynomials of the square, closest to sin(x)/x and cos(x) for |x| <= pi/2, and pi in two parts.
template <typename T> struct Number;

template <> struct Number<float> {
  typedef float Lanes __attribute__((vector_size(register_bytes)));
  typedef uint32_t Bits __attribute__((vector_size(register_bytes)));
  static constexpr float round = 12582912.0f;  // 1.5 * 2^23: a sum with it has no fraction
  static constexpr float pi = 3.14159274101257324f, rest_of_pi = -8.74227765734758577e-8f;
  static constexpr float sine[] = {0.99999999573282807f, -0.166666579918947841f,
                                   0.00833305106231386876f, -0.000198090751796403689f,
                                   2.60522462372601629e-6f};
  static constexpr float cosine[] = {0.999999999780651623f, -0.499999993584687152f,
                                     0.0416666362578964397f, -0.00138883613975837783f,
                                     2.47601611984241704e-5f, -2.60514922790950249e-7f};
};

template <> struct Number<double> {
  typedef double Lanes __attribute__((vector_size(register_bytes)));
  typedef uint64_t Bits __attribute__((vector_size(register_bytes)));
  static constexpr double round = 6755399441055744.0;  // 1.5 * 2^52
  static constexpr double pi = 3.141592653589793116, rest_of_pi = 1.2246467991473532e-16;
  static constexpr double sine[] = {
      1.0,  -0.166666666666666653, 0.00833333333333318665, -0.000198412698412087615,
      2.75573192112433418e-6, -2.5052106891756013e-8, 1.60589409352666506e-10,
      -7.64302797288191009e-13, 2.72158926615422313e-15};
  static constexpr double cosine[] = {
      0.999999999999999996, -0.499999999999999743, 0.0416666666666638879,
      -0.00138888888887731709, 2.48015872774437211e-5, -2.75573163935134665e-7,
      2.0876561958991443e-9, -1.14629048687822901e-11, 4.60900704173208076e-14};
};

template <typename T> using Lanes = typename Number<T>::Lanes;
template <typename T> constexpr int lanes = register_bytes / sizeof(T);

template <typename V, typename T, size_t N> inline V polynomial(V x, const T (&coefficients)[N]) {
  V total = x * coefficients[N - 1] + coefficients[N - 2];
#pragma GCC unroll 8
  for (int i = int(N) - 3; i >= 0; --i) total = total * x + coefficients[i];
  return total;
}

template <typename T> inline void sine_cosine(Lanes<T> angle, Lanes<T> &sine, Lanes<T> &cosine) {
  using Known = Number<T>;
  using Bits = typename Known::Bits;
  const Lanes<T> shifted = angle * T(0.318309886183790672) + Known::round;
  const Lanes<T> turns = shifted - Known::round;  // half turns
  const Lanes<T> rest = (angle - turns * Known::pi) - turns * Known::rest_of_pi;
  const Lanes<T> square = rest * rest;
  const Bits sign = (Bits)shifted << (8 * sizeof(T) - 1);  // that of an odd number of half turns
  sine = (Lanes<T>)((Bits)(rest * polynomial(square, Known::sine)) ^ sign);
  cosine = (Lanes<T>)((Bits)polynomial(square, Known::cosine) ^ sign);
}

template <typename T> inline T sum(const Lanes<T> &values) {
  constexpr int half = lanes<T> / 2;
  T totals[half];
  for (int v = 0; v < half; ++v) totals[v] = values[v] + values[v + half];
  for (int v = 0; v < half / 2; ++v) totals[v] += totals[v + half / 2];
  return half == 4 ? totals[0] + totals[1] : totals[0];
}

// Tables of one batch, chunk by chunk. Columns that use the same transients are neighbours, so
// that powers, which few columns use, are evaluated in few chunks.
template <typename T> class Columns {
 public:
  struct Chunk {
    int64_t first;                    // of its lines among all
    std::vector<int64_t> transients;  // those that it uses
    std::vector<int64_t> lines;       // where they come from
  };
  std::vector<Chunk> chunks;
  std::vector<Lanes<T>> tables;

  Columns(const Shape &shape, const T *given) : columns_(shape.columns), order_(shape.columns) {
    const int64_t transients = shape.transients, gains = shape.waves();
    const auto is_used = [&](int64_t l, int64_t k) {
      const T *real = given + (gains + l) * columns_ + k;
      return real[0] != 0 || real[transients * columns_] != 0;
    };
    std::vector<int64_t> last(columns_, 0);
    for (int64_t l = 0; l < transients; ++l)
      for (int64_t k = 0; k < columns_; ++k)
        if (is_used(l, k)) last[k] = l;
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](int64_t a, int64_t b) { return last[a] < last[b]; });
    for (int64_t c = 0; c < columns_; c += lanes<T>) {
      Chunk chunk{static_cast<int64_t>(tables.size()), {}, {}};
      const int64_t end = std::min<int64_t>(c + lanes<T>, columns_);
      for (int64_t line = 0; line < gains; ++line) chunk.lines.push_back(line);
      for (int64_t l = 0; l < transients; ++l)
        if (std::any_of(order_.begin() + c, order_.begin() + end,
                        [&](int64_t k) { return is_used(l, k); })) {
          chunk.transients.push_back(l);
          chunk.lines.push_back(gains + l);
          chunk.lines.push_back(gains + transients + l);
        }
      for (int64_t line = gains + 2 * transients; line < shape.lines(); ++line)
        chunk.lines.push_back(line);
      for (int64_t line : chunk.lines) tables.push_back(load(given + line * columns_, c));
      chunks.push_back(chunk);
    }
  }

  // Columns from c on, in the order of the chunks; those that are missing are 0.
  Lanes<T> load(const T *line, int64_t c) const {
    Lanes<T> values{};
    for (int64_t v = 0; v < lanes<T> && c + v < columns_; ++v) values[v] = line[order_[c + v]];
    return values;
  }
  template <typename To, typename From> void add(const From &values, int64_t c, To *line) const {
    for (int64_t v = 0; v < lanes<T> && c + v < columns_; ++v) line[order_[c + v]] += values[v];
  }
  void load_all(const T *line, std::vector<Lanes<T>> &values) const {
    for (size_t c = 0; c < values.size(); ++c) values[c] = load(line, c * lanes<T>);
  }
  void add_all(const std::vector<Lanes<T>> &values, T *line) const {
    for (size_t c = 0; c < values.size(); ++c) add(values[c], c * lanes<T>, line);
  }

 private:
  int64_t columns_;
  std::vector<int64_t> order_;
};

// One row of a batch: its inputs and transients, and what the chunks make of them.
template <typename T> class Row {
 public:
  const T *x;
  std::vector<T> transient;
  std::vector<Lanes<T>> sine, cosine, to_x, to_transient;
  std::vector<Lanes<T>> real, imag;  // F, by chunk

  explicit Row(const Shape &shape)
      : transient(shape.transients), sine(shape.chunks<T>() * shape.terms), cosine(sine),
        to_x(shape.inputs()), to_transient(shape.transients), real(shape.chunks<T>()), imag(real),
        shape_(shape) {}

  void load_transients(const T *given) {
    for (int64_t l = 0; l < shape_.transients; ++l) transient[l] = given[l * shape_.stride()];
  }

  // F of chunk c, added to what is given.
  inline void evaluate(const Columns<T> &columns, size_t c, Lanes<T> sum_real, Lanes<T> sum_imag) {
    const auto &chunk = columns.chunks[c];
    const Lanes<T> *frequency = columns.tables.data() + chunk.first;
    const Lanes<T> *amplitude = frequency + shape_.inputs(), *phase = amplitude + shape_.terms;
    const Lanes<T> *gain = phase + shape_.terms;
    Lanes<T> *sines = sine.data() + c * shape_.terms, *cosines = cosine.data() + c * shape_.terms;
    for (int64_t l : chunk.transients) {
      sum_real += transient[l] * gain[0];
      sum_imag += transient[l] * gain[1];
      gain += 2;
    }
    for (int64_t j = 0, p = 0; j < shape_.terms; ++j) {
      Lanes<T> angle = phase[j], here_sine, here_cosine;
      for (int64_t i = 0; i < shape_.dimensions; ++i, ++p) angle += x[p] * frequency[p];
      sine_cosine<T>(angle, here_sine, here_cosine);
      sum_real += amplitude[j] * here_cosine;
      sum_imag += amplitude[j] * here_sine;
      sines[j] = here_sine;
      cosines[j] = here_cosine;
    }
    real[c] = sum_real;
    imag[c] = sum_imag;
  }

  // Gradients of the tables of chunk c, added to sums, and of inputs and transients.
  inline void pull_back(const Columns<T> &columns, size_t c, Lanes<T> grad_real,
                        Lanes<T> grad_imag, Lanes<T> *__restrict sums) {
    const int64_t inputs = shape_.inputs(), terms = shape_.terms;
    const auto &chunk = columns.chunks[c];
    const Lanes<T> *table = columns.tables.data() + chunk.first;
    for (int64_t j = 0, p = 0; j < terms; ++j) {
      const Lanes<T> here_sine = sine[c * terms + j], here_cosine = cosine[c * terms + j];
      const Lanes<T> turn = table[inputs + j] * (grad_imag * here_cosine - grad_real * here_sine);
      sums[inputs + j] += grad_real * here_cosine + grad_imag * here_sine;
      sums[inputs + terms + j] += turn;
      for (int64_t i = 0; i < shape_.dimensions; ++i, ++p) {
        sums[p] += x[p] * turn;
        to_x[p] += table[p] * turn;
      }
    }
    const Lanes<T> *gain = table + shape_.waves();
    Lanes<T> *by_gain = sums + shape_.waves();
    for (int64_t l : chunk.transients) {
      to_transient[l] += grad_real * gain[0] + grad_imag * gain[1];
      by_gain[0] += transient[l] * grad_real;
      by_gain[1] += transient[l] * grad_imag;
      gain += 2;
      by_gain += 2;
    }
  }

  // Gradients of inputs and transients; the first of the batches with the same inputs begins.
  void give(bool is_first, T *grad_x, T *grad_transients) {
    for (int64_t p = 0; p < shape_.inputs(); ++p) {
      grad_x[p] = sum<T>(to_x[p]) + (is_first ? T(0) : grad_x[p]);
      to_x[p] = Lanes<T>{};
    }
    for (int64_t l = 0; l < shape_.transients; ++l) {
      grad_transients[l * shape_.stride()] = sum<T>(to_transient[l]);
      to_transient[l] = Lanes<T>{};
    }
  }

 private:
  const Shape shape_;
};

// Sums over rows for every line of the tables, in T over a run of rows and in double over runs.
template <typename T> class Sums {
 public:
  std::vector<Lanes<T>> tables;

  explicit Sums(const Columns<T> &columns)
      : tables(columns.tables.size()), totals_(lanes<T> * tables.size()), columns_(columns) {}

  void count_row() {
    if (++done_ % run_ == 0) flush();
  }
  void finish(int64_t width, double *grad_tables) {
    flush();
    const double *total = totals_.data();
    for (size_t c = 0; c < columns_.chunks.size(); ++c)
      for (int64_t line : columns_.chunks[c].lines) {
        columns_.add(total, c * lanes<T>, grad_tables + line * width);
        total += lanes<T>;
      }
  }

 private:
  void flush() {
    for (size_t i = 0; i < tables.size(); ++i) {
      for (int v = 0; v < lanes<T>; ++v) totals_[i * lanes<T> + v] += tables[i][v];
      tables[i] = Lanes<T>{};
    }
  }
  static constexpr int64_t run_ = 64;
  int64_t done_ = 0;
  std::vector<double> totals_;
  const Columns<T> &columns_;
};

template <typename T>
void evaluate(const Shape &shape, int64_t first, int64_t last, const T *x, const T *tables,
              T *real, T *imag) {
  Row<T> row(shape);
  for (int64_t b = 0; b < shape.batches; ++b) {
    const Columns<T> columns(shape, tables + b * shape.lines() * shape.columns);
    for (int64_t s = 0; s < shape.samples; ++s)
      for (int64_t n = first; n < last; ++n) {
        const int64_t line = shape.line(b, s, n);
        row.x = x + shape.input(b, s, n);
        for (size_t c = 0; c < columns.chunks.size(); ++c) {
          row.evaluate(columns, c, Lanes<T>{}, Lanes<T>{});
          columns.add(row.real[c], c * lanes<T>, real + line);
          columns.add(row.imag[c], c * lanes<T>, imag + line);
        }
      }
  }
}

template <typename T>
void pull_back(const Shape &shape, int64_t first, int64_t last, const T *x, const T *tables,
               const T *grad_real, const T *grad_imag, T *grad_x, double *grad_tables) {
  Row<T> row(shape);
  for (int64_t b = 0; b < shape.batches; ++b) {
    const Columns<T> columns(shape, tables + b * shape.lines() * shape.columns);
    Sums<T> sums(columns);
    for (int64_t s = 0; s < shape.samples; ++s)
      for (int64_t n = first; n < last; ++n) {
        const int64_t line = shape.line(b, s, n);
        row.x = x + shape.input(b, s, n);
        for (size_t c = 0; c < columns.chunks.size(); ++c) {
          row.evaluate(columns, c, Lanes<T>{}, Lanes<T>{});
          row.pull_back(columns, c, columns.load(grad_real + line, c * lanes<T>),
                        columns.load(grad_imag + line, c * lanes<T>),
                        sums.tables.data() + columns.chunks[c].first);
        }
        row.give(b == 0 || shape.x_batches > 1, grad_x + shape.input(b, s, n), nullptr);
        sums.count_row();
      }
    sums.finish(shape.columns, grad_tables + b * shape.lines() * shape.columns);
  }
}

// What moments F m and F^2 v are made of; base is what is added to F for all samples of a row.
template <typename T> struct Given {
  const T *x, *tables, *transients, *base;  // B S N inputs, B lines K, B L N S, 2 B N K
};

template <typename T> struct Gradients {
  T *x, *base, *transients;
  double *tables;
};

// Moments of the rows of one batch, and their gradients, one row of one sample at a time.
template <typename T> class Batch {
 public:
  Batch(const Shape &shape, int64_t b, const Given<T> &given)
      : shape_(shape), b_(b), given_(given), row_(shape),
        columns_(shape, given.tables + b * shape.lines() * shape.columns), sums_(columns_),
        totals_(2 * shape.units) {
    for (int64_t part = 0; part < 2; ++part) {
      base_[part].assign(columns_.chunks.size(), Lanes<T>{});
      by_base_[part] = base_[part];
    }
  }

  void begin(int64_t n) {
    n_ = n;
    for (int64_t part = 0; part < 2 && shape_.has_base; ++part) {
      columns_.load_all(given_.base + place(part), base_[part]);
      by_base_[part].assign(columns_.chunks.size(), Lanes<T>{});
    }
  }

  void evaluate(int64_t s) {
    s_ = s;
    row_.x = given_.x + shape_.input(b_, s, n_);
    row_.load_transients(given_.transients + shape_.transient(b_, s, n_));
    for (size_t c = 0; c < columns_.chunks.size(); ++c)
      row_.evaluate(columns_, c, base_[0][c], base_[1][c]);
  }

  // Moments of the row that was evaluated.
  void moments(T *mean, T *variance) {
    const int64_t units = shape_.units;
    for (size_t c = 0; c < columns_.chunks.size(); ++c) {
      const Lanes<T> *weight = columns_.tables.data() + weights(c);
      const Lanes<T> real = row_.real[c], imag = row_.imag[c];
      for (int64_t u = 0; u < units; ++u, weight += 2) {
        totals_[2 * u] += real * weight[0] + imag * weight[1];
        totals_[2 * u + 1] +=
            real * real * weight[2 * units] + imag * imag * weight[2 * units + 1];
      }
    }
    for (int64_t u = 0; u < units; ++u) {
      mean[u] = sum<T>(totals_[2 * u]);
      variance[u] = sum<T>(totals_[2 * u + 1]);
      totals_[2 * u] = totals_[2 * u + 1] = Lanes<T>{};
    }
  }

  // Gradients of all that is given, from those of its moments.
  void pull_back(const T *grad_mean, const T *grad_variance, const Gradients<T> &gradients) {
    const int64_t units = shape_.units;
    for (size_t c = 0; c < columns_.chunks.size(); ++c) {
      const Lanes<T> *mean = columns_.tables.data() + weights(c), *variance = mean + 2 * units;
      Lanes<T> *__restrict by_mean = sums_.tables.data() + weights(c);
      Lanes<T> *__restrict by_variance = by_mean + 2 * units;
      const Lanes<T> real = row_.real[c], imag = row_.imag[c];
      Lanes<T> grad_real{}, grad_imag{}, slope_real{}, slope_imag{};
      for (int64_t u = 0; u < units; ++u) {
        const T of_mean = grad_mean[u], of_variance = grad_variance[u];
        grad_real += of_mean * mean[2 * u];
        grad_imag += of_mean * mean[2 * u + 1];
        slope_real += of_variance * variance[2 * u];
        slope_imag += of_variance * variance[2 * u + 1];
        by_mean[2 * u] += of_mean * real;
        by_mean[2 * u + 1] += of_mean * imag;
        by_variance[2 * u] += of_variance * (real * real);
        by_variance[2 * u + 1] += of_variance * (imag * imag);
      }
      grad_real += 2 * real * slope_real;
      grad_imag += 2 * imag * slope_imag;
      by_base_[0][c] += grad_real;
      by_base_[1][c] += grad_imag;
      row_.pull_back(columns_, c, grad_real, grad_imag,
                     sums_.tables.data() + columns_.chunks[c].first);
    }
    row_.give(b_ == 0 || shape_.x_batches > 1, gradients.x + shape_.input(b_, s_, n_),
              gradients.transients + shape_.transient(b_, s_, n_));
    sums_.count_row();
  }

  void end(const Gradients<T> &gradients) {
    for (int64_t part = 0; part < 2 && shape_.has_base; ++part)
      columns_.add_all(by_base_[part], gradients.base + place(part));
  }
  void finish(const Gradients<T> &gradients) {
    sums_.finish(shape_.columns, gradients.tables + b_ * shape_.lines() * shape_.columns);
  }

 private:
  int64_t place(int64_t part) const {
    return ((part * shape_.batches + b_) * shape_.rows + n_) * shape_.columns;
  }
  // The first of the weights of a chunk among all tables.
  int64_t weights(size_t c) const {
    return columns_.chunks[c].first + columns_.chunks[c].lines.size() - 4 * shape_.units;
  }

  const Shape &shape_;
  const int64_t b_;
  const Given<T> &given_;
  Row<T> row_;
  const Columns<T> columns_;
  Sums<T> sums_;
  std::vector<Lanes<T>> totals_, base_[2], by_base_[2];
  int64_t n_ = 0, s_ = 0;
};

template <typename T>
void moments(const Shape &shape, int64_t first, int64_t last, const Given<T> &given, T *mean,
             T *variance) {
  for (int64_t b = 0; b < shape.batches; ++b) {
    Batch<T> batch(shape, b, given);
    for (int64_t n = first; n < last; ++n) {
      batch.begin(n);
      for (int64_t s = 0; s < shape.samples; ++s) {
        const int64_t line = shape.moment(b, s, n);
        batch.evaluate(s);
        batch.moments(mean + line, variance + line);
      }
    }
  }
}

template <typename T>
void pull_moments(const Shape &shape, int64_t first, int64_t last, const Given<T> &given,
                  const T *grad_mean, const T *grad_variance, const Gradients<T> &gradients) {
  for (int64_t b = 0; b < shape.batches; ++b) {
    Batch<T> batch(shape, b, given);
    for (int64_t n = first; n < last; ++n) {
      batch.begin(n);
      for (int64_t s = 0; s < shape.samples; ++s) {
        const int64_t line = shape.moment(b, s, n);
        batch.evaluate(s);
        batch.pull_back(grad_mean + line, grad_variance + line, gradients);
      }
      batch.end(gradients);
    }
    batch.finish(gradients);
  }
}

// Sums over samples of (y - F m)^2 + F^2 v, and the gradients of their sum weighted by w: a row is
// pulled back while its sines are at hand. Targets may differ by sample.
template <typename T>
void squares(const Shape &shape, int64_t first, int64_t last, const Given<T> &given,
             const T *target, const T *weight, T *squares, T *grad_target,
             const Gradients<T> &gradients) {
  std::vector<T> mean(shape.units), variance(shape.units);
  for (int64_t b = 0; b < shape.batches; ++b) {
    Batch<T> batch(shape, b, given);
    for (int64_t n = first; n < last; ++n) {
      const int64_t line = shape.moment(b, 0, n);
      batch.begin(n);
      for (int64_t s = 0; s < shape.samples; ++s) {
        const int64_t own = shape.moment(b, shape.target_samples == 1 ? 0 : s, n);
        batch.evaluate(s);
        batch.moments(mean.data(), variance.data());
        for (int64_t u = 0; u < shape.units; ++u) {
          const T error = mean[u] - target[own + u];
          squares[line + u] += error * error + variance[u];
          mean[u] = 2 * weight[line + u] * error;
          grad_target[own + u] -= mean[u];
        }
        batch.pull_back(mean.data(), weight + line, gradients);
      }
      batch.end(gradients);
    }
    batch.finish(gradients);
  }
}

}  // namespace

#define KERNELS(T, NAME)                                                                          \
  extern "C" void evaluate_##NAME(const Shape *shape, int64_t first, int64_t last, const T *x,    \
                                  const T *tables, T *real, T *imag) {                            \
    evaluate<T>(*shape, first, last, x, tables, real, imag);                                      \
  }                                                                                               \
  extern "C" void pull_back_##NAME(const Shape *shape, int64_t first, int64_t last, const T *x,   \
                                   const T *tables, const T *grad_real, const T *grad_imag,       \
                                   T *grad_x, double *grad_tables) {                              \
    pull_back<T>(*shape, first, last, x, tables, grad_real, grad_imag, grad_x, grad_tables);      \
  }                                                                                               \
  extern "C" void moments_##NAME(const Shape *shape, int64_t first, int64_t last, const T *x,     \
                                 const T *tables, const T *transients, const T *base, T *mean,    \
                                 T *variance) {                                                   \
    moments<T>(*shape, first, last, {x, tables, transients, base}, mean, variance);               \
  }                                                                                               \
  extern "C" void pull_moments_##NAME(const Shape *shape, int64_t first, int64_t last,            \
                                      const T *x, const T *tables, const T *transients,           \
                                      const T *base, const T *grad_mean, const T *grad_variance,  \
                                      T *grad_x, T *grad_base, T *grad_transients,                \
                                      double *grad_tables) {                                      \
    pull_moments<T>(*shape, first, last, {x, tables, transients, base}, grad_mean, grad_variance, \
                    {grad_x, grad_base, grad_transients, grad_tables});                           \
  }                                                                                               \
  extern "C" void squares_##NAME(const Shape *shape, int64_t first, int64_t last, const T *x,     \
                                 const T *tables, const T *transients, const T *base,             \
                                 const T *target, const T *weight, T *grad_x, T *grad_base,       \
                                 T *grad_transients, T *sums, T *grad_target,                     \
                                 double *grad_tables) {                                           \
    squares<T>(*shape, first, last, {x, tables, transients, base}, target, weight, sums,          \
               grad_target, {grad_x, grad_base, grad_transients, grad_tables});                   \
  }

KERNELS(float, float32)
KERNELS(double, float64)
