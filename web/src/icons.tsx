export function Heart() {
  return (
    <svg viewBox="0 0 24 24" aria-hidden="true">
      <path d="M12 20.6 3.9 12.8a5.2 5.2 0 0 1 7.4-7.4l.7.8.7-.8a5.2 5.2 0 0 1 7.4 7.4z" />
    </svg>
  );
}

export function Star() {
  return (
    <svg viewBox="0 0 24 24" aria-hidden="true">
      <path d="m12 3.2 2.7 5.6 6.1.9-4.4 4.3 1 6.1L12 17.2l-5.4 2.9 1-6.1-4.4-4.3 6.1-.9z" />
    </svg>
  );
}
