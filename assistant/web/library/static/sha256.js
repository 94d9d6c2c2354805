// SHA-256 (FIPS 180-4) of a file of any size: by the browser where it can hash and the file fits into memory, else here,
// piece by piece. `await peritoHash(file, stopped)` gives hexadecimal digits.
(() => {
  const IN_MEMORY = 64 * 1024 * 1024;
  const PIECE = 1024 * 1024;
  const primes = [];
  for (let n = 2; primes.length < 64; n += 1) if (primes.every((prime) => n % prime)) primes.push(n);
  const fraction = (value) => Math.floor((value - Math.floor(value)) * 2 ** 32) | 0;
  const K = Int32Array.from(primes, (prime) => fraction(Math.cbrt(prime)));
  const BEGIN = Int32Array.from(primes.slice(0, 8), (prime) => fraction(Math.sqrt(prime)));
  const W = new Int32Array(64);

  const digest = (state, view, at) => {
    for (let i = 0; i < 16; i += 1) W[i] = view.getInt32(at + i * 4);
    for (let i = 16; i < 64; i += 1) {
      const x = W[i - 15];
      const y = W[i - 2];
      const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
      const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
      W[i] = (W[i - 16] + s0 + W[i - 7] + s1) | 0;
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let i = 0; i < 64; i += 1) {
      const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const t1 = (h + s1 + ((e & f) ^ (~e & g)) + K[i] + W[i]) | 0;
      const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + t1) | 0;
      d = c;
      c = b;
      b = a;
      a = (t1 + t2) | 0;
    }
    [a, b, c, d, e, f, g, h].forEach((value, i) => (state[i] = (state[i] + value) | 0));
  };

  const ending = (rest, size) => {
    const last = new Uint8Array(rest.length < 56 ? 64 : 128);
    last.set(rest);
    last[rest.length] = 0x80;
    const view = new DataView(last.buffer);
    view.setUint32(last.length - 8, Math.floor(size / 2 ** 29));
    view.setUint32(last.length - 4, (size * 8) % 2 ** 32);
    return view;
  };

  const byPieces = async (file, stopped) => {
    const state = Int32Array.from(BEGIN);
    let rest = new Uint8Array();
    for (let at = 0; at < file.size; at += PIECE) {
      if (stopped()) return "";
      const bytes = new Uint8Array(await file.slice(at, at + PIECE).arrayBuffer());
      const view = new DataView(bytes.buffer);
      const whole = bytes.length - (bytes.length % 64);
      for (let i = 0; i < whole; i += 64) digest(state, view, i);
      rest = bytes.subarray(whole);
    }
    const view = ending(rest, file.size);
    for (let i = 0; i < view.byteLength; i += 64) digest(state, view, i);
    return Array.from(state, (word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
  };

  globalThis.peritoHashByPieces = byPieces;
  globalThis.peritoHash = async (file, stopped = () => false) => {
    if (!globalThis.crypto?.subtle || file.size > IN_MEMORY) return byPieces(file, stopped);
    const bytes = await crypto.subtle.digest("SHA-256", await file.arrayBuffer());
    return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
  };
})();
