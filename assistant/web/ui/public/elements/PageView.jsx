// A cited page beside the chat: the passage boxed, how it was read, and how sure that reading is.
import { useEffect, useRef, useState } from 'react'

const labels = window.peritoLabels[document.documentElement.lang] || window.peritoLabels.en

export default function PageView() {
  const { items } = props
  const [index, setIndex] = useState(Math.max(0, items.findIndex((item) => item.number === props.number)))
  const [zoom, setZoom] = useState(false)
  const [state, setState] = useState('loading')
  const sheet = useRef(null)
  const section = useRef(null)
  const item = items[index]

  useEffect(() => setState('loading'), [item.image])
  // Who opened the page goes on from it, with the keyboard too.
  useEffect(() => section.current?.focus({ preventScroll: true }), [])

  const showPassage = () => {
    const image = sheet.current?.querySelector('img')
    if (!image || !item.boxes.length) return
    const top = Math.min(...item.boxes.map((box) => box[1]))
    const bottom = Math.max(...item.boxes.map((box) => box[3]))
    const left = Math.min(...item.boxes.map((box) => box[0]))
    const right = Math.max(...item.boxes.map((box) => box[2]))
    sheet.current.scrollTop = ((top + bottom) / 2) * image.clientHeight - sheet.current.clientHeight / 2
    sheet.current.scrollLeft = ((left + right) / 2) * image.clientWidth - sheet.current.clientWidth / 2
  }

  useEffect(() => {
    if (state === 'ready') showPassage()
  }, [zoom, state])

  const page = item.time || labels.page.replace('{page}', item.page)
  return (
    <section ref={section} tabIndex={-1} className="perito-card perito-page" aria-label={`${item.document}, ${page}`}>
      <div className="perito-page-head">
        <h2 className="perito-name">{item.document}</h2>
        <div className="perito-badges" style={{ marginTop: '.35rem' }}>
          <span className="perito-badge">{page}</span>
          <span className="perito-badge" title={labels.reader}>{labels.readers[item.reader] || item.reader}</span>
          <span className="perito-badge" data-tone={item.confidence < 0.85 ? 'unsure' : 'sure'}>
            {labels.confidence.replace('{percent}', Math.round(item.confidence * 100))}
          </span>
          {item.corrected_by ? (
            <span className="perito-badge">{labels.corrected_by.replace('{who}', item.corrected_by)}</span>
          ) : null}
        </div>
      </div>
      <div className="perito-page-bar">
        <span className="perito-buttons">
          <button
            type="button"
            className="perito-button"
            disabled={index === 0}
            aria-label={labels.previous}
            onClick={() => setIndex(index - 1)}
          >
            ‹
          </button>
          <span className="perito-facts" aria-live="polite" style={{ alignSelf: 'center' }}>
            {labels.of.replace('{number}', item.number).replace('{count}', items.length)}
          </span>
          <button
            type="button"
            className="perito-button"
            disabled={index === items.length - 1}
            aria-label={labels.next}
            onClick={() => setIndex(index + 1)}
          >
            ›
          </button>
        </span>
        <span className="perito-buttons">
          <button type="button" className="perito-button" aria-pressed={zoom} onClick={() => setZoom(!zoom)}>
            {zoom ? labels.fit : labels.enlarge}
          </button>
          <a className="perito-button" href={item.image} target="_blank" rel="noreferrer">
            {labels.open}
          </a>
        </span>
      </div>
      <div className="perito-sheet" ref={sheet} tabIndex={0} role="group" aria-label={labels.picture}>
        {state === 'failed' ? (
          <p className="perito-error" style={{ padding: '1rem' }}>{labels.gone}</p>
        ) : (
          <div className="perito-paper" data-zoom={zoom}>
          <img
            src={item.image}
            alt={`${item.document}, ${page}. ${item.text}`}
            onClick={() => setZoom(!zoom)}
            onLoad={() => setState('ready')}
            onError={() => setState('failed')}
          />
          {item.boxed || state !== 'ready'
            ? null
            : item.boxes.map((box, number) => (
                <span
                  key={number}
                  className="perito-box"
                  style={{
                    left: `${box[0] * 100}%`,
                    top: `${box[1] * 100}%`,
                    width: `${(box[2] - box[0]) * 100}%`,
                    height: `${(box[3] - box[1]) * 100}%`
                  }}
                />
              ))}
          </div>
        )}
      </div>
      <blockquote className="perito-quote">{item.text}</blockquote>
    </section>
  )
}
