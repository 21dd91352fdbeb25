/** SHA-256 in hex; undefined where the browser has none: on pages that are neither https nor local. */
export const sha256 = globalThis.crypto?.subtle
  ? async (text: string) => {
      const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text));
      return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('');
    }
  : undefined;
