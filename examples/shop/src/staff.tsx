// Product management for staff. The policies decide; this only hides the forms from others.
import { useState, type FormEvent, type JSX } from 'react';
import { supabase, fieldText, type Product } from './client.ts';

export function NewProduct(): JSX.Element {
  const [problem, setProblem] = useState<string>();

  const add = async (event: FormEvent<HTMLFormElement>): Promise<void> => {
    event.preventDefault();
    const form = event.currentTarget;
    const picture = await uploadPicture(new FormData(form).get('picture'));
    const { error } = await supabase.from('products').insert({
      name: fieldText(form, 'name'),
      description: fieldText(form, 'description'),
      price: Math.round(Number(fieldText(form, 'price')) * 100),
      stock: Number(fieldText(form, 'stock')),
      picture,
    });
    setProblem(error?.message);
    if (!error) form.reset();
    // Without its row the picture could not be found, so delete it.
    else if (picture !== null) await supabase.storage.from('pictures').remove([picture]);
  };

  return (
    <form className="new" onSubmit={(event) => void add(event)} aria-label="New product">
      <h2>New product</h2>
      <label>
        Name
        <input name="name" required maxLength={80} />
      </label>
      <label>
        Description
        <textarea name="description" rows={2} />
      </label>
      <label>
        Price in euros
        <input name="price" type="number" min={0} step={0.01} required />
      </label>
      <label>
        Stock
        <input name="stock" type="number" min={0} step={1} required />
      </label>
      <label>
        Picture
        <input name="picture" type="file" accept="image/png,image/jpeg,image/webp" />
      </label>
      {problem !== undefined && <p role="alert">{problem}</p>}
      <button type="submit" className="primary">
        Add
      </button>
    </form>
  );
}

/** Uploads the file and returns its path, or null if no file was chosen. */
async function uploadPicture(file: FormDataEntryValue | null): Promise<string | null> {
  if (!(file instanceof File) || file.size === 0) return null;
  const path = crypto.randomUUID();
  const { error } = await supabase.storage.from('pictures').upload(path, file);
  return error ? null : path;
}

export function EditProduct({ product }: { readonly product: Product }): JSX.Element {
  const change = (values: Partial<Pick<Product, 'stock' | 'is_offered'>>): void =>
    void supabase.from('products').update(values).eq('id', product.id).then();

  return (
    <p className="line edit">
      <label>
        Stock
        <input
          type="number"
          min={0}
          defaultValue={product.stock}
          key={product.stock}
          aria-label={`Stock of ${product.name}`}
          onBlur={(event) => {
            const stock = event.currentTarget.valueAsNumber;
            if (stock !== product.stock && stock >= 0) change({ stock });
          }}
        />
      </label>
      <button
        type="button"
        aria-label={product.is_offered ? `Stop offering ${product.name}` : `Offer ${product.name} again`}
        onClick={() => change({ is_offered: !product.is_offered })}
      >
        {product.is_offered ? 'Stop offering' : 'Offer again'}
      </button>
    </p>
  );
}
